"""A tour with Spark over the dialogs of `conversations demo`: it prints tables, and draws three pictures beside this file.

    conversations demo --keep                                  # prints the directory DIR of its data
    conversations broker start --name demo --data DIR/kafka    # prints the address
    python examples/spark/tour.py HOST:PORT

It needs the extra `spark`, and Matplotlib for the pictures.
"""

import sys
from itertools import accumulate
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from conversations import Kafka
from conversations_ops.demo.messages import FLIGHTS
from spark_jobs.reading.dialogs import in_order, read_dialogs, read_set_aside
from spark_jobs.reading.letters import newest, read_letters
from spark_jobs.reading.wire import Wire
from spark_jobs.running.session import spark_session

PICTURES = Path(__file__).parent


def tour(bootstrap: str) -> None:
    spark = spark_session("tour")

    print("Messages, each once, with typed bodies: the legs of one aircraft")
    messages = read_dialogs(spark, bootstrap=bootstrap, service="aircraft-log", contract=FLIGHTS).cache()
    legs = messages.where("type = 'Leg'").select("conversation_id", "key", "sequence", "appended_at", "body.Leg.*")
    legs.where("key = 'N14228'").orderBy("sequence").select(
        "sequence", "flight", "origin", "destination", "delay"
    ).show(5)

    print("Whole dialogs, in order: how many are complete, and how long they are")
    dialogs = in_order(messages).cache()
    dialogs.groupBy("to_target", "ended", "complete", (F.size("gaps") > 0).alias("has_gaps")).agg(
        F.count("*").alias("dialogs"), F.max("count").alias("longest")
    ).orderBy("to_target", "ended").show()

    print("The busiest routes, and how late their flights left")
    legs.groupBy("origin", "destination").agg(
        F.count("*").alias("flights"), F.round(F.avg("delay"), 1).alias("delay"), F.sum("air_minutes").alias("minutes")
    ).orderBy(F.desc("flights")).show(5)

    print("Records that belong to no dialog")
    read_set_aside(spark, bootstrap=bootstrap).groupBy("topic", "why").count().show(truncate=False)

    print("Dead letters, by reason")
    letters = newest(read_letters(spark, Wire(Kafka(bootstrap), {}), ["operations", "aircraft-log"])).cache()
    letters.groupBy("service", "reason", "exception").count().orderBy("reason").show(truncate=False)

    draw(answers(messages, legs), dialogs, letters)


def answers(messages: DataFrame, legs: DataFrame) -> DataFrame:
    """Return two quantiles of the milliseconds between the records of a leg and of its answer, for each second in which legs came."""
    logged = messages.where("type = 'Logged'").select(
        "conversation_id", F.col("body.Logged.row").alias("row"), F.col("appended_at").alias("answered_at")
    )
    waited = F.col("answered_at").cast("double") - F.col("appended_at").cast("double")
    second = F.date_trunc("second", "appended_at").alias("second")
    quantiles = [F.percentile("waited", F.lit(share)).alias(name) for name, share in (("p50", 0.5), ("p99", 0.99))]
    joined = legs.join(logged, ["conversation_id", "row"]).withColumn("waited", waited * 1000)
    return joined.groupBy(second).agg(*quantiles).orderBy("second")


def draw(latency: DataFrame, dialogs: DataFrame, letters: DataFrame) -> None:
    mpl.use("Agg")
    found = latency.collect()
    start = found[0].second
    figure, axes = plt.subplots(figsize=(8, 3.5))
    for name in ("p50", "p99"):
        axes.plot([(row.second - start).total_seconds() for row in found], [row[name] for row in found], label=name)
    axes.set(title="From a leg to its answer", xlabel="seconds", ylabel="milliseconds", yscale="log")
    axes.legend()
    save(figure, "latency.png")

    begun = dialogs.where("to_target").select(F.col("first_at").alias("at"), F.lit(1).alias("change"))
    over = dialogs.where("to_target and ended is not null").select(
        F.col("last_at").alias("at"), F.lit(-1).alias("change")
    )
    changes = begun.union(over).orderBy("at").collect()
    figure, axes = plt.subplots(figsize=(8, 3.5))
    axes.step([(row["at"] - start).total_seconds() for row in changes], list(accumulate(row.change for row in changes)))
    axes.set(title="Dialogs open", xlabel="seconds", ylabel="dialogs")
    save(figure, "open-dialogs.png")

    groups = letters.groupBy("reason").count().orderBy("count").collect()
    figure, axes = plt.subplots(figsize=(8, 2))
    axes.barh([row.reason for row in groups], [row["count"] for row in groups])
    axes.set(title="Dead letters", xlabel="letters")
    save(figure, "dead-letters.png")


def save(figure: Figure, name: str) -> None:
    figure.tight_layout()
    figure.savefig(PICTURES / name, dpi=110)
    print(f"drew {name}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    tour(sys.argv[1])
