import httpx
import asyncio

async def call_mcp_tool(tool_name: str, **kwargs):
    async with httpx.AsyncClient() as client:
        response = await client.post(
            "http://localhost:8080/mcp",
            json={
                "method": "tools/call",
                "params": {"name": tool_name, "arguments": kwargs},
            },
            timeout=30.0,
        )
        response.raise_for_status()
        result = response.json()
        if "error" in result:
            raise RuntimeError(f"Tool error: {result['error']}")
        return result

async def main():
    # Navigate browser and extract content
    await call_mcp_tool("browser_navigate", url="https://example.com")
    content = await call_mcp_tool("browser_extract")

    # Save extracted content to file
    await call_mcp_tool("file_write", path="/tmp/content.txt", content=content["text"])

    # Read it back
    data = await call_mcp_tool("file_read", path="/tmp/content.txt")
    print(data)

    # Execute a shell command
    result = await call_mcp_tool("terminal_execute", command="uname -a")
    print(result)

asyncio.run(main())
