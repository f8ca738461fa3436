// The state as a share link has it, and back.

/** @typedef {import("./state.js").State} State */

/**
 * In a link, what is beside is a state of its own.
 * @param {State} state
 */
export function toShared(state) {
  const { beside, ...own } = state;
  return beside === null ? own : { ...own, beside: { ...own, ...beside } };
}

/**
 * Reads what a link held. Fields that it lacks are those of an empty state.
 * @param {any} shared
 * @returns {State}
 */
export function fromShared(shared) {
  const beside = shared.beside ?? null;
  return {
    prompt: shared.prompt ?? "",
    params: shared.params ?? {},
    order: shared.order ?? null,
    forced: shared.forced ?? [],
    draft: shared.draft ?? null,
    schema: shared.schema ?? null,
    beside: beside === null ? null : { params: own(beside.params ?? {}), order: beside.order ?? null },
  };
}

/**
 * The parameters without those that both sides share.
 * @param {Record<string, unknown>} params
 */
function own({ seed, max_tokens, ...params }) {
  return params;
}
