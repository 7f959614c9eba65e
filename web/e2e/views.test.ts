import axe, { type AxeResults } from "axe-core";
import { beforeAll, describe, expect, test } from "vitest";
import { type Visitor, visitor } from "./browser";
import { environment } from "./environment";
import { logIn } from "./pages";
import { EVERYTHING, ensureSetUp, person, READER } from "./service";
import { HEIGHTS, look, THEMES, VIEWS, type Who, WIDTHS, type World } from "./views";

const { trace10k } = environment();

const WHO: readonly Who[] = ["anonymous", "newcomer", "reader", "admin", "previewing"];

/** A separate administrator, so that its previews do not affect other tests. */
const PREVIEWER = "previewer";

let world: World;
let newcomer: { username: string; password: string };

beforeAll(async () => {
  const admin = await ensureSetUp();
  const reader = await person(admin, READER, [EVERYTHING]);
  const { traces } = await reader.call<{ traces: { trace_id: string; span_count: number }[] }>(
    "POST",
    "/traces/query",
    { view: "summary", limit: 100 },
  );
  const trace = traces.find(({ span_count }) => span_count > 5 && span_count < 200)?.trace_id ?? trace10k;
  world = { trace, role: EVERYTHING, user: READER, database: "otel", table: "otel_traces" };
  const username = `newcomer-${Date.now()}`;
  const made = await admin.call<{ initial_password: string }>("POST", "/users", { username });
  newcomer = { username, password: made.initial_password };
  const previewer = await person(admin, PREVIEWER, ["admin"]);
  await previewer.call("GET", "/me");
});

/** Signs in once for all views of this theme and width. */
async function enter(who: Who, visit: Visitor): Promise<void> {
  const { page } = visit;
  if (who === "newcomer") {
    await page.goto("/ui/login");
    await page.getByLabel("User name", { exact: true }).fill(newcomer.username);
    await page.getByLabel("Password", { exact: true }).fill(newcomer.password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL("**/ui/password**");
  } else if (who !== "anonymous") {
    await logIn(page, who === "reader" ? READER : who === "admin" ? "admin" : PREVIEWER);
  }
  if (who === "previewing") {
    const status = await page.evaluate(async (username) => {
      const answer = await fetch("/me/preview", {
        method: "PUT",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ username }),
      });
      return answer.status;
    }, READER);
    expect(status).toBeLessThan(300);
  }
}

/** Serious and critical findings of axe: the rule with its elements. */
async function findings(visit: Visitor): Promise<string[]> {
  // Evaluated instead of added as a script, which the pages' Content-Security-Policy would block.
  await visit.page.evaluate(axe.source);
  const { violations } = await visit.page.evaluate<AxeResults>(
    "axe.run(document, { resultTypes: ['violations'] })",
  );
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, impact, nodes }) =>
      nodes.map(
        ({ html, failureSummary }) => `${id} (${impact}): ${html.slice(0, 300)} ${failureSummary ?? ""}`,
      ),
    );
}

/** Elements that extend beyond the right edge, which makes the page scroll horizontally. */
const tooWide = (visit: Visitor): Promise<string[]> =>
  visit.page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) {
      return [];
    }
    return [...document.querySelectorAll("body *")]
      .filter((element) => element.getBoundingClientRect().right > clientWidth + 1)
      .slice(0, 10)
      .map((element) => `${scrollWidth} > ${clientWidth}: ${element.outerHTML.slice(0, 200)}`);
  });

for (const width of WIDTHS) {
  describe.each(WHO)(`${width} pixels wide, %s`, (who) => {
    // The visitors run in parallel, because they mostly wait for the service and their pages.
    let visits: Visitor[] = [];

    beforeAll(async () => {
      visits = await Promise.all(
        THEMES.map((theme) =>
          visitor(`${who} ${theme} ${width}`, {
            colorScheme: theme,
            viewport: { width, height: HEIGHTS[width] },
          }),
        ),
      );
      await Promise.all(visits.map((visit) => enter(who, visit)));
      return () => Promise.all(visits.map((visit) => visit.context.close()));
    });

    test.each(VIEWS.filter((view) => view.who === who))("$name is accessible and fits", async (view) => {
      const looked = await Promise.all(
        visits.map(async (visit) => {
          await look(visit.page, view, world);
          return [...(await findings(visit)), ...(await tooWide(visit))];
        }),
      );
      THEMES.forEach((theme, index) => {
        expect.soft(looked[index], theme).toEqual([]);
      });
    });
  });
}
