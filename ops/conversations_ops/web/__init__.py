"""The web console: pages about the dialogs of a namespace for a browser, and decisions about failed messages.

Theory of operation. The pages are written on the server from the read model, which a thread keeps up to date (``read_model.live``). They
work without any script. One small script fetches the page again every two seconds and replaces its main part, so that a page is live.

``guard`` is in front of every page: it limits sizes, adds the headers for the browser's protections, refuses requests from other sites,
and finds the session. A page that changes something checks the role of the user and the token of its form (``sessions``). Decisions are
the commands of ``operate``, in the name of the user, so the owners of dialogs report them in events as they do for a terminal.
"""
