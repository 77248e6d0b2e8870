"""Gives a program a terminal. It is started with the terminal's other end, the master, as file 3.

terminal.py open COLS ROWS PROGRAM ARGS...: becomes the program. It leads a session already, whose terminal this becomes.
File 4 closes when it has.
terminal.py resize COLS ROWS: sets the size of the window, of which the kernel tells the programs in it.
"""

import fcntl
import os
import signal
import struct
import sys
import termios

MASTER = 3
OPENED = 4
# Linux numbers that the module has no names for in all versions.
TIOCGPTN = 0x80045430
TIOCSPTLCK = 0x40045431
IUTF8 = 0o40000


def resize(cols, rows):
    fcntl.ioctl(MASTER, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def become(program):
    fcntl.ioctl(MASTER, TIOCSPTLCK, struct.pack("i", 0))
    (number,) = struct.unpack("I", fcntl.ioctl(MASTER, TIOCGPTN, bytes(4)))
    slave = os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    # Erasing takes a whole character, not one of its bytes.
    modes = termios.tcgetattr(slave)
    modes[0] |= IUTF8
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    for stream in (0, 1, 2):
        os.dup2(slave, stream)
    os.close(MASTER)
    os.set_inheritable(OPENED, False)
    # Python ignores them, and what it ignores its successor would, too.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(program[0], program)
    except OSError as fault:
        os.write(2, f"{program[0]}: {fault.strerror}\r\n".encode())
        os._exit(127 if isinstance(fault, FileNotFoundError) else 126)


what, cols, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
resize(cols, rows)
if what == "open":
    become(sys.argv[4:])
