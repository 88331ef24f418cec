"""`python -m recaudit` is the command `recaudit`."""

from recaudit.cli import main

main()
