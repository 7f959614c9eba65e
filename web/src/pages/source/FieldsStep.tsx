import { Button, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Api } from "../../api/client";
import { Notice } from "../../components/Notice";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { FieldsEditor } from "./FieldsEditor";
import { tableQuery } from "./queries";
import { SaveBar } from "./SaveBar";
import type { FieldChanges } from "./useFieldChanges";

const NO_COLUMNS: ReadonlyMap<string, string[]> = new Map();

/** Step that selects the fields for searches and for policies. */
export function FieldsStep({
  model,
  binding,
  edit,
  onBack,
  onNext,
}: {
  model: Api["AccessModel"];
  binding: Api["Binding"];
  edit: FieldChanges;
  onBack: () => void;
  onNext: () => void;
}) {
  const detail = useQuery(tableQuery(binding.database, binding.table));
  const [onlyMarked, setOnlyMarked] = useState(false);
  const markedCount = edit.stored.size + edit.diff.reduce((sum, { kind }) => sum + COUNT_CHANGE[kind], 0);
  return (
    <Stack gap="md">
      <Text maw={760}>
        Tick <b>Searchable</b> for fields that users and agents may search by, and <b>Usable in policies</b>{" "}
        for fields that policies may use to grant access. Other parts of a span cannot be used for either. The
        list comes from a sample of recent spans; taking the sample was recorded in the audit log.
      </Text>
      {detail.isPending ? (
        <QueryPlaceholder query={detail} label="a sample of spans" height={430} />
      ) : (
        <FieldsEditor
          model={model}
          binding={binding}
          sample={detail}
          edit={edit}
          columnsOf={NO_COLUMNS}
          onlyMarked={onlyMarked}
          onOnlyMarked={setOnlyMarked}
        />
      )}
      {markedCount === 0 && !detail.isPending && (
        <Notice kind="warning" title="No field is marked yet">
          Without fields, searches are by time only, and a role grants access to all traces or to none. “Mark
          recommended fields” is a good start.
        </Notice>
      )}
      <SaveBar
        edit={edit}
        save={
          edit.diff.length > 0 ? (
            <Button loading={edit.isSaving} onClick={() => edit.save(onNext)}>
              Save and continue
            </Button>
          ) : (
            <Button onClick={onNext}>Continue</Button>
          )
        }
      >
        <Button variant="default" onClick={onBack}>
          Back
        </Button>
      </SaveBar>
    </Stack>
  );
}

const COUNT_CHANGE = { marked: 1, changed: 0, unmarked: -1 } as const;
