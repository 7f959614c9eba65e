import { Text } from "@mantine/core";
import { IconBan } from "@tabler/icons-react";
import type { Api } from "../../api/client";
import { SanitizedText } from "../../components/SanitizedText";
import { sanitize } from "../../lib/sanitize";
import { editText, type FilterTerm } from "./conditions";
import classes from "./Facets.module.css";
import { displayName, type Field } from "./fields";
import { findOperator } from "./operators";

/** Values of a facet that are shown. */
const SHOWN_VALUES = 6;
/** Fields with more values, such as ids of users, are no facets. */
const MAX_VALUES = 100;

/** The condition of a value of a facet. */
export function facetTerm(field: Field, value: string, isExclusion: boolean): FilterTerm | null {
  const operator = findOperator(field.type === "string_array" ? "has" : "eq");
  return operator === undefined ? null : { conditions: [{ field, operator, values: [value] }], isExclusion };
}

/** The most frequent values of fields, with the number of traces of each. A click requires the value, or excludes it. */
export function Facets({
  facets,
  fields,
  terms,
  isOutdated,
  onToggle,
}: {
  facets: Api["TraceStats"]["facets"];
  fields: readonly Field[];
  /** Texts of the terms of the search. */
  terms: ReadonlySet<string>;
  /** Whether the numbers are those of the previous search. */
  isOutdated: boolean;
  onToggle: (term: FilterTerm) => void;
}) {
  const shownFacets = facets.flatMap((facet) => {
    const field = fields.find((candidate) => candidate.ref === facet.ref);
    const isUseful = facet.values.length > 0 && facet.distinct <= MAX_VALUES;
    return field === undefined || !isUseful ? [] : [{ facet, field }];
  });
  if (shownFacets.length === 0) {
    return null;
  }
  return (
    <aside
      className={classes.facets}
      aria-label="Values"
      aria-busy={isOutdated}
      data-outdated={isOutdated || undefined}
    >
      {shownFacets.map(({ facet, field }) => (
        <FacetSection
          key={facet.ref}
          facet={facet}
          field={field}
          name={displayName(field, fields)}
          terms={terms}
          onToggle={onToggle}
        />
      ))}
    </aside>
  );
}

function FacetSection({
  facet,
  field,
  name,
  terms,
  onToggle,
}: {
  facet: Api["TraceStats"]["facets"][number];
  field: Field;
  name: string;
  terms: ReadonlySet<string>;
  onToggle: (term: FilterTerm) => void;
}) {
  const hiddenCount = facet.distinct - Math.min(SHOWN_VALUES, facet.values.length);
  return (
    <section className={classes.facet} aria-label={sanitize(name)}>
      <Text size="xs" fw={600} component="h2" truncate title={sanitize(facet.ref)}>
        <SanitizedText text={name} maxLength={60} />
      </Text>
      <ul className={classes.values}>
        {facet.values.slice(0, SHOWN_VALUES).map(({ value, traces }) => {
          const required = facetTerm(field, value, false);
          const excluded = facetTerm(field, value, true);
          if (required === null || excluded === null) {
            return null;
          }
          const text = sanitize(value === "" ? "(empty)" : value).slice(0, 200);
          return (
            <li key={value} className={classes.value}>
              <button
                type="button"
                className={classes.require}
                aria-pressed={terms.has(editText(required))}
                title={text}
                onClick={() => onToggle(required)}
              >
                <span className={classes.name}>
                  <SanitizedText text={value === "" ? "(empty)" : value} maxLength={80} />
                </span>
                <span className={classes.count}>{traces.toLocaleString("en")}</span>
              </button>
              <button
                type="button"
                className={classes.exclude}
                aria-pressed={terms.has(editText(excluded))}
                aria-label={`Exclude ${text}`}
                title={`Exclude traces with ${text}`}
                onClick={() => onToggle(excluded)}
              >
                <IconBan size={14} aria-hidden />
              </button>
            </li>
          );
        })}
      </ul>
      {hiddenCount > 0 && (
        <Text size="xs" c="dimmed">
          {hiddenCount.toLocaleString("en")} more
        </Text>
      )}
    </section>
  );
}
