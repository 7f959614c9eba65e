import { accessSync, constants } from "node:fs";

const VARIABLES = {
  url: ["TRACEWARDEN_E2E_URL", "the URL of the service, such as http://127.0.0.1:8080"],
  adminPassword: ["TRACEWARDEN_E2E_ADMIN_PASSWORD", "the generated first password of `admin`"],
  clickhouseUrl: ["TRACEWARDEN_E2E_STORE_URL", "the URL of ClickHouse's HTTP interface"],
  clickhousePassword: ["TRACEWARDEN_E2E_STORE_PASSWORD", "the password of its user `default`"],
  providerUrl: ["TRACEWARDEN_E2E_PROVIDER_URL", "the issuer of the identity provider `company`"],
  providerToken: ["TRACEWARDEN_E2E_PROVIDER_TOKEN", "the credential for changing its users"],
  chromium: ["CHROMIUM", "the path of Chromium, such as /usr/bin/chromium"],
  trace100k: ["TRACEWARDEN_E2E_TRACE_100K", "the id of a trace of 100,000 spans"],
  trace10k: ["TRACEWARDEN_E2E_TRACE_10K", "the id of a trace of 10,000 spans"],
  traceHostile: ["TRACEWARDEN_E2E_TRACE_HOSTILE", "the id of the trace with hostile texts"],
} as const;

const { TRACEWARDEN_TEST_VERIFY = "" } = process.env;

/** Whether `cargo xtask verify` runs, which tests more and measures speed. */
export const VERIFY = TRACEWARDEN_TEST_VERIFY !== "";

/** Environment of the tests. */
export type Environment = Record<keyof typeof VARIABLES, string>;

/** Reads the environment.
 *
 * Throws an error that names all missing variables: tests that silently skip themselves would pass. */
export function environment(): Environment {
  const keys = Object.keys(VARIABLES) as (keyof typeof VARIABLES)[];
  const missing = keys.filter((key) => (process.env[VARIABLES[key][0]] ?? "") === "");
  if (missing.length > 0) {
    const lines = missing.map((key) => `  ${VARIABLES[key][0]}: ${VARIABLES[key][1]}`);
    throw new Error(
      `The browser tests need a service with sample traces. \`cargo xtask test browser\` starts one and runs them; ` +
        `to run them without it, set these environment variables:\n${lines.join("\n")}`,
    );
  }
  const values = Object.fromEntries(
    keys.map((key) => [key, process.env[VARIABLES[key][0]] ?? ""]),
  ) as Environment;
  try {
    accessSync(values.chromium, constants.X_OK);
  } catch {
    throw new Error(
      `CHROMIUM is ${values.chromium}, which is not an executable. Install Chromium, or set the variable to its path.`,
    );
  }
  return { ...values, url: values.url.replace(/\/+$/, "") };
}
