"""FastMCP's proxy on standard input and output, as its documentation shows: fastmcp_proxy.py URL | COMMAND..."""

import sys

from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

target = sys.argv[1:]
if target[0].startswith("http://"):
    proxy = create_proxy(target[0])
else:
    proxy = create_proxy(StdioTransport(command=target[0], args=target[1:]))
proxy.run(show_banner=False)
