"""Names and static types: scope.py < operators.py < calls.py < expressions.py < program.py."""
