import type { Api } from "../api/client";

export const TYPE_LABELS: Record<Api["LogicalType"], string> = {
  string: "text",
  number: "number",
  boolean: "true or false",
  string_array: "list of texts",
};
