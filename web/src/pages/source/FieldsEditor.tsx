import { Alert, Button, Group, Select, Stack, Switch, Text, TextInput } from "@mantine/core";
import { IconInfoCircle, IconSearch, IconWand } from "@tabler/icons-react";
import { useMemo, useState } from "react";
import type { Api } from "../../api/client";
import { Visible } from "../../components/Visible";
import { visible } from "../../lib/visible";
import { AddField } from "./AddField";
import { FieldsTable } from "./FieldsTable";
import { type Candidate, candidatesOf } from "./fields";
import { EVERYWHERE, listed, type Order, placesOf } from "./listing";
import { counted } from "./numbers";
import { Paged } from "./Paged";
import { Refused } from "./Refused";
import type { FieldChanges } from "./useFieldChanges";
import { usualMarks } from "./usual";

const PAGE = 50;

/** Editor of the fields and the candidates, with search and filters. */
export function FieldsEditor({
  model,
  binding,
  detail,
  edit,
  columnsOf,
  onlyMarked,
  onOnlyMarked,
}: {
  model: Api["AccessModel"];
  binding: Api["Binding"];
  /** The table's columns and keys, or `null` while they are unknown. */
  detail: Api["TableDetail"] | null;
  edit: FieldChanges;
  /** Columns of the table that hold a key, and that policies could read instead of the map. */
  columnsOf: ReadonlyMap<string, string[]>;
  onlyMarked: boolean;
  onOnlyMarked: (only: boolean) => void;
}) {
  const [text, setText] = useState("");
  const [place, setPlace] = useState(EVERYWHERE);
  const [order, setOrder] = useState<Order>("frequency");
  const [onlyRefused, setOnlyRefused] = useState(false);
  const [undone, setUndone] = useState<number | null>(null);
  const { changes, refusal } = edit;

  const found = useMemo(() => candidatesOf(detail, model.fields, {}), [detail, model.fields]);
  const candidates = useMemo(() => {
    const known = new Set(found.map(({ key }) => key));
    const added = Object.entries(changes).filter(([key]) => !known.has(key));
    return added.length === 0
      ? found
      : [
          ...found,
          ...candidatesOf(detail, [], Object.fromEntries(added)).filter(({ key }) => !known.has(key)),
        ];
  }, [found, detail, changes]);
  const usual = useMemo(
    () =>
      usualMarks(candidates, binding, edit.stored).filter(({ candidate }) => !isMarkedNow(edit, candidate)),
    [candidates, binding, edit],
  );
  const refused = refusal === null ? 0 : refusal.byField.size;
  const only = useMemo(() => {
    if (onlyRefused && refusal !== null && refusal.byField.size > 0) {
      return new Set(refusal.byField.keys());
    }
    // Fields that were removed but not saved stay in the list, so that this can be undone.
    return onlyMarked ? new Set([...edit.stored.keys(), ...Object.keys(changes)]) : null;
  }, [onlyRefused, refusal, onlyMarked, edit.stored, changes]);
  const shown = useMemo(
    () =>
      listed(candidates, {
        text,
        place,
        order,
        only,
        leading: Object.values(binding.display ?? {}).filter((column) => column != null),
      }),
    [candidates, text, place, order, only, binding],
  );
  const places = placesOf(candidates);
  const maps =
    detail === null
      ? places.map(({ place }) => place).filter((map) => map !== "")
      : detail.columns.filter((column) => column.key_logical_types.length > 0).map(({ name }) => name);
  const gaveUp = detail?.maps.filter((map) => map.gave_up).map(({ map }) => map) ?? [];
  const isFiltered = text !== "" || place !== EVERYWHERE || onlyMarked || (onlyRefused && refused > 0);
  return (
    <Stack gap="sm">
      {detail?.sampled === false && (
        <Alert
          color="blue"
          variant="light"
          icon={<IconInfoCircle aria-hidden />}
          title="No spans were sampled"
        >
          The service is configured not to sample rows (discovery_samples = false), so the keys of maps are
          not known. Add the keys that you need by hand; columns are listed.
        </Alert>
      )}
      {gaveUp.length > 0 && (
        <Alert
          color="yellow"
          variant="light"
          icon={<IconInfoCircle aria-hidden />}
          title="The sample is incomplete"
        >
          Too large to sample in a few seconds: <Visible text={gaveUp.join(", ")} />. The keys are not listed;
          add those that you need by hand.
        </Alert>
      )}
      <Group gap="sm" align="end">
        <TextInput
          data-slash
          aria-label="Search fields"
          placeholder="Search names and examples"
          leftSection={<IconSearch size={16} aria-hidden />}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          w={{ base: "100%", xs: 260 }}
        />
        <Select
          aria-label="Columns or map"
          w={{ base: "100%", xs: 230 }}
          allowDeselect={false}
          value={place}
          onChange={(value) => setPlace(value ?? EVERYWHERE)}
          data={[
            { value: EVERYWHERE, label: `All ${counted(candidates.length, "field")}` },
            ...places.map(({ place, count }) => ({
              value: place,
              label: `${place === "" ? "Columns" : visible(place)} (${count})`,
            })),
          ]}
        />
        <Switch
          label="Only marked"
          checked={onlyMarked}
          onChange={(event) => onOnlyMarked(event.currentTarget.checked)}
          mb={8}
        />
        {refused > 0 && (
          <Switch
            label={`Only rejected (${refused})`}
            checked={onlyRefused}
            onChange={(event) => setOnlyRefused(event.currentTarget.checked)}
            mb={8}
          />
        )}
        <Group gap="xs" ml="auto">
          {onlyMarked && detail === null && (
            <Button variant="light" size="xs" onClick={() => onOnlyMarked(false)}>
              Find more fields
            </Button>
          )}
          {detail !== null && (
            <Button
              variant="light"
              size="xs"
              leftSection={<IconWand size={14} aria-hidden />}
              disabled={usual.length === 0}
              onClick={() => {
                edit.put(usual);
                setUndone(usual.length);
              }}
            >
              Mark recommended fields{usual.length === 0 ? "" : ` (${usual.length})`}
            </Button>
          )}
          <AddField
            detail={detail}
            maps={maps}
            candidates={candidates}
            onAdd={(field, type) => {
              edit.put([{ candidate: field, mark: { type, filterable: true, policy: false, column: null } }]);
              setPlace(EVERYWHERE);
              setOnlyRefused(false);
              setText(field.name);
            }}
          />
        </Group>
      </Group>
      {undone !== null && usual.length === 0 && edit.diff.length > 0 && (
        <Text size="sm" role="status">
          {counted(undone, "field")} marked as recommended, and not saved yet. Check them: all users can
          search by searchable fields, within the traces that they may see.
        </Text>
      )}
      <Refused edit={edit} />
      {shown.length === 0 ? (
        <Text c="var(--tw-quiet)" py="md">
          {isFiltered
            ? onlyMarked && edit.stored.size === 0 && text === ""
              ? "No field is marked yet. Turn off “Only marked” to see all fields."
              : "No matching field. If spans have a key that the sample lacks, add it by hand."
            : "The table has no columns or keys that can be fields."}
        </Text>
      ) : (
        <Paged items={shown} size={PAGE} what="fields" key={`${text} ${place} ${onlyMarked} ${order}`}>
          {(fields) => (
            <FieldsTable
              fields={fields}
              edit={edit}
              columnsOf={columnsOf}
              sampled={detail !== null}
              order={order}
              onOrder={setOrder}
            />
          )}
        </Paged>
      )}
    </Stack>
  );
}

function isMarkedNow(edit: FieldChanges, candidate: Candidate): boolean {
  const mark = edit.markOf(candidate);
  return mark.filterable || mark.policy;
}
