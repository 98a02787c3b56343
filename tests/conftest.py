"""Start the programs under test as from a terminal, also where the tests are a background job."""

import signal

# A shell starts a background job with SIGINT ignored, and each program that it starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
