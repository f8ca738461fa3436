"""Writes a story with vLLM and onedraw. The argument, as JSON, changes how vLLM works, and not what it writes."""

import json
import sys

from vllm import LLM, SamplingParams

if __name__ == "__main__":
    settings = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    llm = LLM("models/stories", dtype="float32", additional_config={"onedraw": {"sampler": True}}, **settings)
    params = SamplingParams(temperature=0.7, top_k=50, top_p=0.9, seed=7, max_tokens=256)
    print("Once upon a time" + llm.generate("Once upon a time", params)[0].outputs[0].text)
