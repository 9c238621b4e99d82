"""A web shop in front of the saga in ``orders.py``: ``python examples/order_page.py [HOST:PORT]``, then open http://127.0.0.1:8000/.

It runs on the Kafka at this address, or else in memory. The page places an order, and shows its status. The status is the state of the
order's conversation group, read from outside. A web framework would do the same with ``async with client.begin_dialog(...)`` and
``asyncio.to_thread(client.state, ...)``.
"""

import html
import sys
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conversations import Client, Kafka, local
from examples.orders import DEPOSITS, ORDERS, Deposit, PlaceOrder, orders, payments, stock

FORM = """<form method="post" action="/orders"><input name="customer" value="ada"> <input name="article" value="lamp">
<input name="pieces" value="1" type="number"> <button>Order</button></form>"""


class Shop:
    """The pages of the web shop, and the client that speaks for the service ``web``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def place(self, order: PlaceOrder) -> str:
        """Place an order. Return its number."""
        number = Client.new_id()  # after a time-out, the same block with the same id does not order a second time
        with self._client.begin_dialog("orders", ORDERS, id=number, to_group=f"order-{number}") as dialog:
            dialog.send(order)
        return number

    def pay_in(self, customer: str, amount: Decimal) -> None:
        """Pay money into the account of a customer."""
        with self._client.begin_dialog("payments", DEPOSITS, to_group=f"account-{customer}") as dialog:
            dialog.send(Deposit(amount=amount))
            dialog.end()

    def status(self, number: str) -> str:
        """Return the status of an order."""
        found = self._client.state(orders, f"order-{number}")
        return found.value.status if found is not None else "on its way"


def handler_for(shop: Shop) -> type[BaseHTTPRequestHandler]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, _, number = self.path.partition("/orders/")
            self._answer(f"<h1>{html.escape(shop.status(number))}</h1><p>Reload for news.</p>" if number else FORM)

        def do_POST(self) -> None:
            size = min(int(self.headers["Content-Length"] or 0), 10_000)
            fields = {name: values[0] for name, values in parse_qs(self.rfile.read(size).decode()).items()}
            try:
                order = PlaceOrder.model_validate(fields)
            except ValueError as error:
                self._answer(html.escape(str(error)), 400)
                return
            self.send_response(303)
            self.send_header("Location", f"/orders/{shop.place(order)}")
            self.end_headers()

        def _answer(self, body: str, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(body.encode())

    return Page


if __name__ == "__main__":
    kafka = Kafka(sys.argv[1]) if sys.argv[1:] else None
    with local(orders, payments, stock, kafka=kafka, name="web", initiates=[ORDERS, DEPOSITS]) as client:
        shop = Shop(client)
        shop.pay_in("ada", Decimal(500))
        server = ThreadingHTTPServer(("127.0.0.1", 8000), handler_for(shop))
        print("http://127.0.0.1:8000/  (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            server.server_close()
