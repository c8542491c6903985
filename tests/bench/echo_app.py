"""The least that FastAPI can do: parse a JSON body, answer with it."""
from fastapi import FastAPI

app = FastAPI()


@app.post("/api/v1/execute")
async def execute(body: dict):
    return body
