"""One node that asks the model. The server keeps the messages and streams what the model writes."""

import os
from typing import Any

from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

model = ChatOpenAI(model="instant", base_url=os.environ["MODEL_URL"], api_key="bench")


async def ask(state: Any) -> dict[str, Any]:
    return {"messages": [await model.ainvoke(state["messages"])]}


graph = StateGraph(MessagesState).add_node(ask).add_edge(START, "ask").compile()
