// The page's own rules, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { factsOf, inShort, insteadOf, isHeld } from "../../../page/model/facts.js";
import { percent, spoken, visible } from "../../../page/model/figures.js";
import { pathTo, place } from "../../../page/model/forest.js";
import { History } from "../../../page/model/history.js";
import { fromShared, toShared } from "../../../page/model/link.js";
import { read, shown } from "../../../page/model/lists.js";
import { kept, moved } from "../../../page/model/order.js";
import { parting } from "../../../page/model/parting.js";
import { rivals } from "../../../page/model/rivals.js";
import { stepOf } from "../../../page/model/scale.js";
import { firstState, heldBefore, settingOf, withParam, withSetting, writeQuestion } from "../../../page/model/state.js";

const ids = (...found) => found.map((id, position) => ({ id, position }));

test("probabilities are shown with as many digits as tell something", () => {
  const shownOf = [0, 0.00001, 0.0034, 0.123456, 0.9994, 0.99999, 1].map(percent);
  assert.deepEqual(shownOf, ["0 %", "< 0.01 %", "0.34 %", "12.3 %", "99.9 %", "> 99.9 %", "100 %"]);
});

test("what is said of a token is true of one that the reader holds, too", () => {
  const token = { id: 4, raw_probability: 0.25, probability: 0.5, rank: 2, entropy: 1.5, forced: false };
  assert.equal(
    factsOf(token),
    "The model alone gives it 25.0 %; it was drawn with 50.0 %; rank 2; 1.5 bits of choice.",
  );
  const held = { ...token, forced: true };
  assert.equal(
    factsOf(held),
    "The model alone gives it 25.0 %; it is held, not drawn: a draw would have taken it with 50.0 %; rank 2; 1.5 bits of choice.",
  );
  assert.match(factsOf({ ...held, probability: 0 }), /it is held, not drawn: the stages had removed it;/);
  const none = { probability: null, raw_probability: null, rank: null, entropy: null };
  assert.equal(factsOf({ ...held, ...none }), "The schema left no other choice.");
  // What the parameters draw is another thing.
  assert.equal(insteadOf(token, { id: 4 }), null);
  assert.equal(insteadOf(token, { id: 5 }), "With these parameters, the draw takes");
  assert.equal(insteadOf(held, { id: 5 }), "Were it not held, a draw would take");
  assert.equal(insteadOf(held, { id: 4 }), "A draw would take this token, too.");
});

test("a token for which a schema left no choice is not held", () => {
  const none = { id: 4, text: " a", probability: null, raw_probability: null, rank: null, entropy: null, forced: true };
  const held = { ...none, text: " b", probability: 0 };
  const drawn = { ...held, forced: false };
  assert.deepEqual([none, held, drawn].map(isHeld), [false, true, false]);
  const look = { token: { id: 4, text: " a" }, probability: 1 };
  assert.deepEqual(inShort(none, look), { text: " a", said: "100 %" });
  assert.deepEqual(inShort(held, look), { text: " b", said: "held, not drawn" });
  assert.deepEqual(inShort(drawn, look), { text: " a", said: "100 %" });
  assert.deepEqual(inShort(undefined, look), { text: " a", said: "100 %" });
  // Nothing else could be drawn, so there is nothing to say of a draw.
  assert.equal(insteadOf(none, look.token), null);
});

test("spaces and line ends of a token can be seen, and heard", () => {
  assert.deepEqual([" a b", "\n", ""].map(visible), ["␣a␣b", "↵", "∅"]);
  assert.deepEqual([" girl", "\n", " ", ""].map(spoken), ["girl", "line end", "space", "nothing"]);
});

test("a token's colour has five steps, and one without a choice has none", () => {
  const token = { probability: 0.19, entropy: 0.25, rank: 21 };
  assert.deepEqual(
    ["probability", "entropy", "rank"].map((measure) => stepOf(measure, token)),
    [3, 0, 4],
  );
  assert.equal(stepOf("probability", { probability: null }), 0);
});

test("two texts part at the first token that differs, or where one of them ends", () => {
  assert.equal(parting(ids(1, 2, 3), ids(1, 4, 3), false), 1);
  assert.equal(parting(ids(1, 2), ids(1, 2, 3), false), null);
  assert.equal(parting(ids(1, 2), ids(1, 2, 3), true), 2);
  assert.equal(parting(ids(1, 2), ids(1, 2), true), null);
});

test("a rival knows what it had before, what it has after, and which stage removed it", () => {
  const token = (id, probability, short) => ({
    id,
    text: `t${id}`,
    probability,
    ...(short === undefined ? {} : { short }),
  });
  const look = {
    token: { id: 2, text: "t2" },
    probability: 1 / 3,
    stages: [
      { stage: "row", removed: [], leading: [token(1, 0.5), token(2, 0.3), token(3, 0.2)] },
      { stage: "temperature", removed: [], leading: [token(1, 0.6), token(2, 0.3), token(3, 0.1)] },
      {
        stage: "min_p",
        removed: [token(3, 0.1, 0.2), token(4, 0.01, 0.3)],
        leading: [token(1, 2 / 3), token(2, 1 / 3)],
      },
    ],
  };
  assert.deepEqual(rivals(look, 0, 2, 9), [
    { id: 1, text: "t1", before: 0.5, after: 2 / 3, gone: null, short: null },
    { id: 2, text: "t2", before: 0.3, after: 1 / 3, gone: null, short: null },
    { id: 3, text: "t3", before: 0.2, after: 0, gone: "min_p", short: 0.2 },
  ]);
  assert.equal(rivals(look, 1, 2, 9).length, 4);
  assert.deepEqual(rivals(look, 1, 2, 9)[2], { id: 3, text: "t3", before: 0.1, after: 0, gone: "min_p", short: 0.2 });
  assert.equal(rivals(look, 0, 1, 9)[2].after, 0.1);
});

test("the drawn token is among the rivals, however unlikely it was", () => {
  const row = {
    stage: "row",
    removed: [],
    leading: [
      { id: 1, text: "a", probability: 0.6 },
      { id: 2, text: "b", probability: 0.3 },
    ],
  };
  const look = { token: { id: 9, text: "z" }, probability: 0.01, stages: [row, { ...row, stage: "temperature" }] };
  const told = (...span) => rivals(look, ...span).map(({ id, before, after }) => [id, before, after]);
  assert.deepEqual(told(0, 1, 3), [
    [1, 0.6, 0.6],
    [2, 0.3, 0.3],
    [9, null, 0.01],
  ]);
  assert.deepEqual(told(0, 1, 2), [
    [1, 0.6, 0.6],
    [9, null, 0.01],
  ]);
  assert.deepEqual(told(0, 0, 2), [
    [1, 0.6, 0.6],
    [9, null, null],
  ]);
});

test("undo goes back to where a branch left, redo to the branch that was left last", () => {
  const history = new History({ prompt: "a" });
  history.push("one", { prompt: "b" }, 0);
  history.undo();
  assert.equal(history.canUndo, false);
  history.push("two", { prompt: "c" }, 3);
  assert.deepEqual(
    history.children(0).map(({ change }) => change),
    ["one", "two"],
  );
  history.undo();
  history.redo();
  assert.equal(history.current.state.prompt, "c");
  history.visit(1);
  history.undo();
  history.redo();
  assert.equal(history.current.change, "one");
  assert.equal(history.canRedo, false);
});

test("the history forgets old ends of branches, never the way to the present", () => {
  const history = new History({ prompt: "" });
  for (let i = 0; i < 300; i++) {
    history.push(`${i}`, { prompt: `${i}` }, 0);
    history.undo();
  }
  assert.equal(history.visits.length, 200);
  assert.equal(history.current.change, "The beginning");
  history.redo();
  assert.equal(history.current.change, "299");
});

test("a stage moves to before another, or to the end", () => {
  const order = ["temperature", "min_p", "top_k"];
  assert.deepEqual(moved(order, "top_k", "temperature"), ["top_k", "temperature", "min_p"]);
  assert.deepEqual(moved(order, "temperature", null), ["min_p", "top_k", "temperature"]);
  assert.deepEqual(moved(order, "min_p", "min_p"), order);
  assert.equal(kept([...order], order), null);
  assert.deepEqual(kept(["min_p"], order), ["min_p"]);
});

test("a list is read as it is shown", () => {
  for (const value of [[1, 2], ["one", "two words"], [["a"], ["b"]], ["12"], ["a\nb"], { 5: 1.5 }, [" "]]) {
    assert.deepEqual(read(shown(value)), value, JSON.stringify(value));
  }
  assert.deepEqual([shown([]), shown({}), shown(null)], ["", "", ""]);
  assert.equal(read(" "), null);
  assert.throws(() => read("[1,"), SyntaxError);
});

test("a parameter at its default is left out", () => {
  const parameter = { name: "min_p", default: 0 };
  assert.deepEqual(withParam({ top_k: 5 }, parameter, 0.1), { top_k: 5, min_p: 0.1 });
  assert.deepEqual(withParam({ top_k: 5, min_p: 0.1 }, parameter, 0), { top_k: 5 });
});

test("two settings share prompt, seed and length, and differ in the rest", () => {
  const state = { ...firstState(), beside: { params: { min_p: 0.2 }, order: ["min_p"] } };
  assert.deepEqual(settingOf(state, "beside"), {
    params: { min_p: 0.2, seed: "7", max_tokens: 120 },
    order: ["min_p"],
  });
  const next = withSetting(state, "beside", { params: { min_p: 0.3, seed: "8", max_tokens: 5 }, order: null });
  assert.deepEqual(next.params, { seed: "8", max_tokens: 5 });
  assert.deepEqual(next.beside, { params: { min_p: 0.3 }, order: null });
  assert.equal("order" in writeQuestion(state, "main"), false);
  assert.deepEqual(writeQuestion(state, "beside").order, ["min_p"]);
});

test("the tokens before a position are held", () => {
  const tokens = [
    { position: 0, id: 5 },
    { position: 1, id: 6 },
    { position: 2, id: 7 },
  ];
  assert.deepEqual(heldBefore(tokens, 2), [
    { position: 0, token: 5 },
    { position: 1, token: 6 },
  ]);
});

test("a state survives the way through a link", () => {
  const state = {
    ...firstState(),
    forced: [{ position: 3, token: 9 }],
    schema: "{}",
    beside: { params: { top_k: 4 }, order: null },
  };
  const shared = toShared(state);
  assert.deepEqual(shared.beside.params, { top_k: 4 });
  assert.equal(shared.beside.prompt, "Once upon a time");
  assert.deepEqual(fromShared(JSON.parse(JSON.stringify(shared))), state);
  assert.equal(fromShared({ prompt: "x" }).beside, null);
});

test("beams stand in columns, and the first child on its parent's line", () => {
  const node = (id, parent, isKept) => ({ node: id, parent, id, text: "", logprob: 0, kept: isKept });
  const nodes = [node(0, null, true), node(1, null, true), node(2, 0, false), node(3, 0, true), node(4, 1, true)];
  const { placed, columns, rows } = place(nodes);
  const at = Object.fromEntries(placed.map((each) => [each.node, [each.column, each.row]]));
  assert.deepEqual(at, { 0: [0, 0], 3: [1, 0], 2: [1, 1], 1: [0, 2], 4: [1, 2] });
  assert.deepEqual([columns, rows], [2, 3]);
  assert.deepEqual([...pathTo(nodes, 2)], [2, 0]);
  assert.deepEqual(place([]), { placed: [], columns: 0, rows: 0 });
});
