"""Runs a command until nobody holds the lock on the file `users` in a directory: `DIRECTORY COMMAND...`. A script."""

import fcntl
import shutil
import subprocess
import sys


def main(arguments: list[str]) -> int:
    directory, child = arguments[0], subprocess.Popen(arguments[1:])
    with open(f"{directory}/users", "rb") as users:
        fcntl.flock(users, fcntl.LOCK_EX)
    child.kill()
    code = child.wait()
    shutil.rmtree(directory, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
