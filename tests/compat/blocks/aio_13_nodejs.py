from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

result = client.nodejs.execute_code(code="""
const os = require('os');
console.log('Platform:', os.platform());
console.log('Node version:', process.version);
console.log('Sum 1-100:', Array.from({length:100},(_,i)=>i+1).reduce((a,b)=>a+b,0));
""")

print(result.data.outputs[0].text)
# Platform: linux
# Node version: v20.x.x
# Sum 1-100: 5050
