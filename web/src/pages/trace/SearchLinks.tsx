import { ActionIcon, Tooltip } from "@mantine/core";
import { IconBan, IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { filterSchemaQuery } from "../../api/queries";
import { sanitize } from "../../lib/sanitize";
import type { Instant } from "../../lib/time";
import { entriesOf, type RawSpan } from "../../trace/columns";
import { urlText } from "../search/conditions";
import { searchableFields } from "../search/fields";
import { findOperator } from "../search/operators";
import { parseValue } from "../search/parse";
import type { SearchUrl } from "../search/url";

const DAY = 86_400;
const HOUR = 3_600;
/** Longer values make unwieldy links. */
const MAX_LENGTH = 1_000;

/** The last 24 hours; for an older span, one hour before and after its start. */
export function rangeAround(start: Instant | null, now: Date): Pick<SearchUrl, "last" | "from" | "to"> {
  if (start === null || now.getTime() / 1000 - start.seconds < DAY) {
    return { last: "24h" };
  }
  const iso = (seconds: number) => new Date(seconds * 1000).toISOString().replace(".000Z", "Z");
  return { from: iso(start.seconds - HOUR), to: iso(start.seconds + HOUR) };
}

/** Links to the search for traces with a value, and for those without; nothing if the field cannot be searched. */
export function SearchLinks({
  columns,
  name,
  text,
  span,
  start,
}: {
  /** Map columns that may hold the field; an empty name means a column. */
  columns: readonly string[];
  name: string;
  text: string;
  span: RawSpan;
  /** Start of the span. */
  start: Instant | null;
}) {
  const schema = useQuery(filterSchemaQuery);
  const fields = schema.data === undefined ? [] : searchableFields(schema.data);
  // Several maps may hold a key of the same name: the field is that of the map with this value.
  const hasValue = (map: string) =>
    map === "" ||
    [...entriesOf(span, [map])].some(
      ([key, value]) => key === name && typeof value !== "object" && String(value) === text,
    );
  const field = fields.find(
    (candidate) => candidate.name === name && columns.includes(candidate.map) && hasValue(candidate.map),
  );
  const operator = findOperator("eq");
  const value = field === undefined || text.length > MAX_LENGTH ? null : parseValue(text, field);
  if (field === undefined || operator === undefined || value === null || !field.operators.includes("eq")) {
    return null;
  }
  const search = (isExclusion: boolean): SearchUrl => ({
    where: urlText([{ conditions: [{ field, operator, values: [value] }], isExclusion }], fields),
    ...rangeAround(start, new Date()),
  });
  const condition = `${sanitize(name).slice(0, 60)} = ${sanitize(text).slice(0, 60)}`;
  const links = [
    {
      label: `Search for ${condition}`,
      icon: <IconSearch size={16} aria-hidden />,
      isExclusion: false,
    },
    {
      label: `Search, excluding traces with ${condition}`,
      icon: <IconBan size={16} aria-hidden />,
      isExclusion: true,
    },
  ];
  return links.map(({ label, icon, isExclusion }) => (
    <Tooltip key={label} label={label}>
      <ActionIcon
        renderRoot={(props) => <Link to="/search" search={search(isExclusion)} {...props} />}
        variant="subtle"
        color="gray"
        size="sm"
        aria-label={label}
      >
        {icon}
      </ActionIcon>
    </Tooltip>
  ));
}
