import type { Api } from "../../api/client";
import type { DraftPolicy } from "./draft";

export type Template = Omit<DraftPolicy, "key">;

type Field = Pick<Api["FieldDescriptor"], "name" | "ref" | "type">;

const TENANT = /tenant|customer|account|organi[sz]ation|org[._]id/i;
const TEAM = /(^|[._])(team|owner|squad|group)s?($|[._])|service\.namespace/i;
const ENVIRONMENT = /(^|[._])env($|[._])|environment/i;
const SERVICE = /^(service\.?name|service)$/i;

/** Policy templates for the defined fields, the most common first. */
export function templatesOf(fields: readonly Field[]): Template[] {
  const templates: Template[] = [];
  const add = (title: string, description: string, expression: string) =>
    templates.push({ title, description, expression });
  for (const { ref, name, type } of fields) {
    if (type === "boolean") {
      add(`Traces with ${name}`, "", ref);
    } else if (type === "string" && TEAM.test(name)) {
      add(
        "Traces of the user's team",
        "The user attribute team names the team.",
        `${ref} == user.attributes.team`,
      );
    } else if (type === "string" && TENANT.test(name)) {
      add(
        "Traces of the user's tenants",
        "The user attribute tenants lists them.",
        `${ref} in user.attributes.tenants`,
      );
    } else if (type === "string" && ENVIRONMENT.test(name)) {
      add("One environment", "", `${ref} == "staging"`);
    } else if (type === "string" && SERVICE.test(name)) {
      add("Some services", "", `${ref} in ["checkout", "payments"]`);
      add(
        "Traces of the user's services",
        "The user attribute services lists them.",
        `${ref} in user.attributes.services`,
      );
    } else if (type === "string_array" && /events?\.name/i.test(name)) {
      add("Traces with an exception", "", `"exception" in ${ref}`);
    }
  }
  const order = [/user\.attributes\.team/, /user\.attributes\.tenants/, /"staging"/, /"checkout"/];
  const rank = ({ expression }: Template) => {
    const index = order.findIndex((pattern) => pattern.test(expression));
    return index === -1 ? order.length : index;
  };
  return templates.sort((a, b) => rank(a) - rank(b));
}
