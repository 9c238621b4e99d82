"""``python -m conversations_ops.host DESCRIPTOR TARGET SLOT``: one worker process. The supervisor starts it.

``DESCRIPTOR`` is the pipe for the reports. The orders on standard input name the target and the slot again: the arguments show
them to people who list the processes of a machine.
"""

import sys

from conversations_ops.host.child import main

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
