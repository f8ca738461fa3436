// Makes the pictures of the page that the book shows. With the variables that `.ci/lab` sets, and `pngquant`:
//   node crates/onedraw-lab/tests/browser/pictures.mjs

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

import { ask, setNumber, startBrowser, startServer, written } from "./support.mjs";

const IMAGES = fileURLToPath(new URL("../../../../docs/src/images/", import.meta.url));

/** Takes a picture of the top of the page, without a pointer or a focus in it. */
async function picture(page, name) {
  await page.mouse.move(3, 3);
  await page.evaluate(() => {
    document.activeElement.blur();
    window.scrollTo(0, 0);
  });
  await page.waitForTimeout(500);
  const path = `${IMAGES}${name}.png`;
  await page.screenshot({ path });
  execFileSync("pngquant", ["--force", "--output", path, "128", path]);
}

const [server, browser] = await Promise.all([startServer(), startBrowser()]);
const open = async (colorScheme) => {
  const page = await browser.newPage({ viewport: { width: 1440, height: 940 }, colorScheme });
  await page.goto(server.url);
  await page.waitForSelector("#bench:not([hidden])");
  await written(page);
  return page;
};

const light = await open("light");
await light.fill("#seed", "5");
await light.press("#seed", "Enter");
await ask(light, "Tom saw a big", 60);
await setNumber(light, "min_p", 0.1);
await light.click('li[data-stage="min_p"] button');
await written(light);
await picture(light, "lab-min-p");

const dark = await open("dark");
await dark.click("#compare");
await setNumber(dark, "temperature", 1.2);
await dark.waitForSelector(".parts");
await written(dark, "beside");
await dark.click("#beside-4");
await dark.waitForFunction(() => document.querySelector("#draw h2").textContent.startsWith("Draw 5"));
await picture(dark, "lab-side-by-side");

await Promise.all([browser.close(), server.stop()]);
