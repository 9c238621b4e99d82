"""``python -m conversations_ops.host DESCRIPTOR TARGET SLOT``: one worker process. The supervisor starts it.

``DESCRIPTOR`` is the pipe for the reports. The process takes the target and the slot from the orders on standard input. The
arguments ``TARGET`` and ``SLOT`` are only for people who list the processes of a machine.
"""

import sys

from conversations_ops.host.child import main

if __name__ == "__main__":
    descriptor = int(sys.argv[1])
    del sys.argv[1:]  # a target that reads the command line when it is imported finds no arguments of ours
    sys.exit(main(descriptor))
