"""The cloud view, of `INSPECT=1`: what the local cloud does, in a browser, and faults to inject.

It shows what a session stores and what its functions log, so it is not a part of the public port. It has a port of its
own on the loopback interface, a host name of this run, and a secret; see `door.py`. Without `INSPECT` nothing of this
package is imported.
"""
