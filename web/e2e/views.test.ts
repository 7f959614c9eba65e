import axe, { type AxeResults } from "axe-core";
import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import { environment, VERIFY } from "./environment";
import { signIn } from "./pages";
import { EVERYTHING, ensureSetUp, ensureUser, READER } from "./service";
import {
  createServiceAccount,
  type Fixture,
  HEIGHTS,
  openView,
  THEMES,
  type UserKind,
  VIEWS,
  WIDTHS,
} from "./views";

const { trace10k } = environment();

const USER_KINDS: readonly UserKind[] = ["anonymous", "newcomer", "reader", "admin", "previewing"];

/** A separate administrator, so that its previews do not affect other tests. */
const PREVIEWER = "previewer";

let fixture: Fixture;
let newcomer: { username: string; password: string };

beforeAll(async () => {
  const admin = await ensureSetUp();
  const reader = await ensureUser(admin, READER, [EVERYTHING]);
  const { traces } = await reader.call<{ traces: { trace_id: string; span_count: number }[] }>(
    "POST",
    "/traces/query",
    { view: "summary", limit: 100 },
  );
  const trace = traces.find(({ span_count }) => span_count > 5 && span_count < 200)?.trace_id ?? trace10k;
  const serviceAccount = await createServiceAccount(admin, READER, EVERYTHING);
  fixture = { trace, role: EVERYTHING, user: READER, serviceAccount, database: "otel", table: "otel_traces" };
  const username = `newcomer-${Date.now()}`;
  const createdUser = await admin.call<{ initial_password: string }>("POST", "/users", { username });
  newcomer = { username, password: createdUser.initial_password };
  const previewer = await ensureUser(admin, PREVIEWER, ["admin"]);
  await previewer.call("GET", "/me");
  return async () => {
    await admin.call("DELETE", `/users/${serviceAccount}`);
  };
});

/** Signs in once for all views of this theme and width. */
async function signInAs(userKind: UserKind, visitor: Visitor): Promise<void> {
  const { page } = visitor;
  if (userKind === "newcomer") {
    await page.goto("/ui/login");
    await page.getByLabel("User name", { exact: true }).fill(newcomer.username);
    await page.getByLabel("Password", { exact: true }).fill(newcomer.password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL("**/ui/password**");
  } else if (userKind !== "anonymous") {
    await signIn(page, userKind === "reader" ? READER : userKind === "admin" ? "admin" : PREVIEWER);
  }
  if (userKind === "previewing") {
    const status = await page.evaluate(async (username) => {
      const response = await fetch("/me/preview", {
        method: "PUT",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ username }),
      });
      return response.status;
    }, READER);
    expect(status).toBeLessThan(300);
  }
}

/** Serious and critical findings of axe: the rule with its elements. */
async function axeFindings(visitor: Visitor): Promise<string[]> {
  // Evaluated instead of added as a script, which the pages' Content-Security-Policy would block.
  await visitor.page.evaluate(axe.source);
  const { violations } = await visitor.page.evaluate<AxeResults>(
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
const overflowingElements = (visitor: Visitor): Promise<string[]> =>
  visitor.page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) {
      return [];
    }
    return [...document.querySelectorAll("body *")]
      .filter((element) => element.getBoundingClientRect().right > clientWidth + 1)
      .slice(0, 10)
      .map((element) => `${scrollWidth} > ${clientWidth}: ${element.outerHTML.slice(0, 200)}`);
  });

/** One in this many views of readers and administrators is tested by `cargo xtask test`; they have most views. */
const SAMPLED = 3;

/** The views of a user, and the themes to test them in: all by `cargo xtask verify`; by `cargo xtask test` a sample, each in one width
 * and theme. */
function combinations(width: (typeof WIDTHS)[number], userKind: UserKind) {
  const index = WIDTHS.indexOf(width);
  const views = VIEWS.filter((view) => view.userKind === userKind);
  if (VERIFY) {
    return { themes: THEMES, views };
  }
  const sample = userKind === "reader" || userKind === "admin" ? SAMPLED : 1;
  return {
    themes: THEMES.filter((_, theme) => theme === index % THEMES.length),
    views: views.filter((_, view) => view % sample === 0 && (view / sample) % WIDTHS.length === index),
  };
}

const suites = WIDTHS.flatMap((width) =>
  USER_KINDS.map((userKind) => ({ width, userKind, ...combinations(width, userKind) })),
).filter(({ views }) => views.length > 0);

for (const { width, userKind, themes, views } of suites) {
  describe(`${width} pixels wide, ${userKind}`, () => {
    // The visitors run in parallel, because they mostly wait for the service and their pages.
    let visitors: Visitor[] = [];

    beforeAll(async () => {
      visitors = await Promise.all(
        themes.map((theme) =>
          newVisitor(`${userKind} ${theme} ${width}`, {
            colorScheme: theme,
            viewport: { width, height: HEIGHTS[width] },
          }),
        ),
      );
      await Promise.all(visitors.map((visitor) => signInAs(userKind, visitor)));
      return () => Promise.all(visitors.map((visitor) => visitor.context.close()));
    });

    test.each(views)("$name is accessible and fits", async (view) => {
      const results = await Promise.all(
        visitors.map(async (visitor) => {
          await openView(visitor.page, view, fixture);
          return [...(await axeFindings(visitor)), ...(await overflowingElements(visitor))];
        }),
      );
      themes.forEach((theme, index) => {
        expect.soft(results[index], theme).toEqual([]);
      });
    });
  });
}
