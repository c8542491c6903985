from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

# List all open tabs
tabs = client.browser_tabs.list()
print(f"Open tabs: {len(tabs.data.tabs)}")

# Open a new tab and navigate
new_tab = client.browser_tabs.new(url="https://github.com")
print(new_tab.data.tab_id)

# Switch to a tab by index
client.browser_tabs.switch(index=0)

# Close a tab by index
client.browser_tabs.close(index=1)
