"""What the scripted model answers over HTTP when its script has a mistake."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from deploy.demo.scripted_model import ScriptedModel


@pytest.mark.parametrize(
    ("steps", "said"),
    [('[{"out":[{"msg":"a"},{"shout":"b"}]}]', "has none of the members"), ("[1]", "no list of objects")],
)
def test_a_mistake_in_a_script_is_answered_in_words_and_not_by_a_stream_that_breaks_off(steps: str, said: str) -> None:
    model = ScriptedModel().start()
    try:
        body = {"input": [{"role": "user", "content": f"[[steps:{steps}]]"}]}
        request = urllib.request.Request(f"{model.base_url}/responses", data=json.dumps(body).encode())
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        assert refused.value.code == 400
        assert said in json.loads(refused.value.read())["error"]["message"]
    finally:
        model.stop()
