"""The programs of the Rubik paper, as they stand there, compiled and run on captures."""
