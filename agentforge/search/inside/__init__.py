"""What runs inside the sandbox: collects the tests once, then judges each candidate in a forked child.

Never imported by the host: `agentforge.search.batch` ships these files as a package of another name,
hence the relative imports. Standard library and pytest only, Python 3.8 and later.

The supervisor forks one *server*, which runs pytest up to the collected items; per test (mode
"observe") or per candidate (mode "screen") the server forks a child, and only children run tests.
A child has its own session, limits and clock, its standard output is the null device, its verdict
is one line in a pipe, and whatever it leaves behind is killed.

An edit inside a function body is patched into the live functions of the loaded module; any other
edit is *cold*: the supervisor writes the file and a child collects anew.
"""
