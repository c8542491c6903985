from sandbox import Sandbox

async def main():
    async with Sandbox() as sandbox:
        # Create VM Session
        await sandbox.create_session("vm")
        
        # Take screenshot
        result = await sandbox.execute("vm:screenshot", {})
        print(result)
        
        # Click
        await sandbox.execute("vm:click", {"x": 100, "y": 200})

import asyncio
asyncio.run(main())
