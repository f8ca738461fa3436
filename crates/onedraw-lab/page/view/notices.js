// Sentences for the reader about what went wrong, or what was done.

import { button, h, place } from "./dom.js";

/** @typedef {"wrong" | "said"} Tone */

/**
 * Shows a sentence until the reader takes it away. The same sentence is shown once.
 * @param {string} sentence
 * @param {Tone} [tone]
 * @param {{ label: string, act: () => void } | null} [offer] what the reader may do about it
 */
export function notify(sentence, tone = "wrong", offer = null) {
  const notices = place("notices");
  for (const notice of notices.children) if (notice.firstChild?.textContent === sentence) notice.remove();
  const notice = h("div", { class: `notice ${tone}`, role: tone === "wrong" ? "alert" : "status" });
  notice.append(h("p", {}, sentence));
  if (offer !== null) {
    notice.append(
      button(offer.label, () => {
        notice.remove();
        offer.act();
      }),
    );
  }
  notice.append(button("×", () => notice.remove(), { class: "plain", "aria-label": "Take this sentence away" }));
  notices.append(notice);
}

/** Takes all sentences about what went wrong away. */
export function clearWrong() {
  for (const notice of [...place("notices").children]) if (notice.classList.contains("wrong")) notice.remove();
}
