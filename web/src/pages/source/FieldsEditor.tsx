import { Button, Group, Select, Stack, Switch, Text } from "@mantine/core";
import { IconWand } from "@tabler/icons-react";
import type { UseQueryResult } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import type { Api } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Notice } from "../../components/Notice";
import { PagedList } from "../../components/PagedList";
import { SanitizedText } from "../../components/SanitizedText";
import { SearchInput } from "../../components/SearchInput";
import { countOf } from "../../lib/numbers";
import { sanitize } from "../../lib/sanitize";
import { AddField } from "./AddField";
import { DISPLAYED_COLUMNS } from "./columns";
import { FieldsTable } from "./FieldsTable";
import { type Candidate, candidatesOf } from "./fields";
import { ALL_CONTAINERS, containersOf, listFields, type SortOrder } from "./listing";
import { RejectionNotice } from "./RejectionNotice";
import { recommendedMarks } from "./recommendedFields";
import type { FieldChanges } from "./useFieldChanges";

const PAGE_SIZE = 50;

/** Editor of the fields and the candidates, with search and filters. */
export function FieldsEditor({
  model,
  binding,
  sample,
  edit,
  columnsOf,
  onlyMarked,
  onOnlyMarked,
  initialText = "",
}: {
  model: Api["AccessModel"];
  binding: Api["Binding"];
  /** The table's columns and keys, as far as they are loaded. */
  sample: Pick<UseQueryResult<Api["TableDetail"]>, "data" | "error" | "refetch">;
  edit: FieldChanges;
  /** Columns of the table that hold a key, and that policies could read instead of the map. */
  columnsOf: ReadonlyMap<string, string[]>;
  onlyMarked: boolean;
  onOnlyMarked: (onlyMarked: boolean) => void;
  /** Text that the listed fields contain at first. */
  initialText?: string;
}) {
  const [text, setText] = useState(initialText);
  const [container, setContainer] = useState(ALL_CONTAINERS);
  const [order, setOrder] = useState<SortOrder>("frequency");
  const [onlyRejected, setOnlyRejected] = useState(false);
  const [recommendedCount, setRecommendedCount] = useState<number | null>(null);
  const { changes, rejection } = edit;
  const detail = sample.data ?? null;

  const knownCandidates = useMemo(() => candidatesOf(detail, model.fields, {}), [detail, model.fields]);
  const candidates = useMemo(() => {
    const knownKeys = new Set(knownCandidates.map(({ key }) => key));
    const addedChanges = Object.entries(changes).filter(([key]) => !knownKeys.has(key));
    return addedChanges.length === 0
      ? knownCandidates
      : [
          ...knownCandidates,
          ...candidatesOf(detail, [], Object.fromEntries(addedChanges)).filter(
            ({ key }) => !knownKeys.has(key),
          ),
        ];
  }, [knownCandidates, detail, changes]);
  const recommended = useMemo(
    () =>
      recommendedMarks(candidates, binding, edit.stored).filter(
        ({ candidate }) => !isMarked(edit, candidate),
      ),
    [candidates, binding, edit],
  );
  const rejectedCount = rejection === null ? 0 : rejection.byField.size;
  const onlyKeys = useMemo(() => {
    if (onlyRejected && rejection !== null && rejection.byField.size > 0) {
      return new Set(rejection.byField.keys());
    }
    // Fields that were removed but not saved stay in the list, so that this can be undone.
    return onlyMarked ? new Set([...edit.stored.keys(), ...Object.keys(changes)]) : null;
  }, [onlyRejected, rejection, onlyMarked, edit.stored, changes]);
  const listedCandidates = useMemo(
    () =>
      listFields(candidates, {
        text,
        container,
        order,
        onlyKeys,
        leadingColumns: DISPLAYED_COLUMNS.map(({ member }) => binding.display?.[member]).filter(
          (column) => column != null,
        ),
      }),
    [candidates, text, container, order, onlyKeys, binding],
  );
  const containers = containersOf(candidates);
  const maps =
    detail === null
      ? containers.map(({ container: name }) => name).filter((map) => map !== "")
      : [
          ...detail.columns.filter((column) => column.key_logical_types.length > 0),
          ...detail.paired_maps,
        ].map(({ name }) => name);
  const unsampledMaps = detail?.maps.filter((map) => map.stopped_early).map(({ map }) => map) ?? [];
  const isFiltered =
    text !== "" || container !== ALL_CONTAINERS || onlyMarked || (onlyRejected && rejectedCount > 0);
  return (
    <Stack gap="sm">
      {!onlyMarked && sample.error !== null && (
        <ErrorNotice
          error={sample.error}
          title="The table could not be sampled"
          onRetry={() => void sample.refetch()}
        />
      )}
      {detail?.sampled === false && (
        <Notice kind="info" title="No spans were sampled">
          The service is configured not to sample rows (discovery_samples = false), so the keys of maps are
          not known. Add the keys that you need by hand; columns are listed.
        </Notice>
      )}
      {unsampledMaps.length > 0 && (
        <Notice kind="warning" title="The sample is incomplete">
          Too large to sample in a few seconds: <SanitizedText text={unsampledMaps.join(", ")} />. The keys
          are not listed; add those that you need by hand.
        </Notice>
      )}
      <Group gap="sm" align="end">
        <SearchInput
          label="Search fields"
          placeholder="Search names and examples"
          value={text}
          onSearch={setText}
          w={{ base: "100%", xs: 260 }}
        />
        <Select
          aria-label="Columns or map"
          w={{ base: "100%", xs: 230 }}
          allowDeselect={false}
          value={container}
          onChange={(value) => setContainer(value ?? ALL_CONTAINERS)}
          data={[
            { value: ALL_CONTAINERS, label: `All fields (${candidates.length})` },
            ...containers.map(({ container: name, count }) => ({
              value: name,
              label: `${name === "" ? "Columns" : sanitize(name)} (${count})`,
            })),
          ]}
        />
        <Switch
          label="Only marked"
          checked={onlyMarked}
          onChange={(event) => onOnlyMarked(event.currentTarget.checked)}
          mb={8}
        />
        {rejectedCount > 0 && (
          <Switch
            label={`Only rejected (${rejectedCount})`}
            checked={onlyRejected}
            onChange={(event) => setOnlyRejected(event.currentTarget.checked)}
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
              disabled={recommended.length === 0}
              onClick={() => {
                edit.putMarks(recommended);
                setRecommendedCount(recommended.length);
              }}
            >
              Mark recommended fields{recommended.length === 0 ? "" : ` (${recommended.length})`}
            </Button>
          )}
          <AddField
            detail={detail}
            maps={maps}
            candidates={candidates}
            onAdd={(field, type) => {
              edit.putMarks([
                { candidate: field, mark: { type, filterable: true, policy: false, column: null } },
              ]);
              setContainer(ALL_CONTAINERS);
              setOnlyRejected(false);
              setText(field.name);
            }}
          />
        </Group>
      </Group>
      {recommendedCount !== null && recommended.length === 0 && edit.diff.length > 0 && (
        <Text size="sm" role="status">
          {countOf(recommendedCount, "field")} marked as recommended, and not saved yet. Check them: all users
          can search by searchable fields, within the traces that they may see.
        </Text>
      )}
      <RejectionNotice edit={edit} />
      {listedCandidates.length === 0 ? (
        <Text c="dimmed" py="md">
          {isFiltered
            ? onlyMarked && edit.stored.size === 0 && text === ""
              ? "No field is marked yet. Turn off “Only marked” to see all fields."
              : "No matching field. If spans have a key that the sample lacks, add it by hand."
            : "The table has no columns or keys that can be fields."}
        </Text>
      ) : (
        <PagedList
          items={listedCandidates}
          pageSize={PAGE_SIZE}
          itemName="fields"
          key={`${text} ${container} ${onlyMarked} ${order}`}
        >
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
        </PagedList>
      )}
    </Stack>
  );
}

function isMarked(edit: FieldChanges, candidate: Candidate): boolean {
  const mark = edit.markOf(candidate);
  return mark.filterable || mark.policy;
}
