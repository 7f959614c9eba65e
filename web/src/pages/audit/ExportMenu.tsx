import { Button, Group, Menu, Modal, Stack, Text } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useRef, useState } from "react";
import { ErrorNotice } from "../../components/ErrorNotice";
import { download } from "../../lib/download";
import { Collection, FORMATS, type Format } from "./export";
import { filterOf } from "./filter";
import { auditPage } from "./queries";
import type { AuditUrl } from "./url";

const PAGE = 500;

type State = { format: Format; count: number; error: unknown; busy: boolean };

/** Downloads all matching records as a file, including records that are not loaded. */
export function Export({ asked }: { asked: AuditUrl }) {
  const [state, setState] = useState<State | null>(null);
  const running = useRef<{ collection: Collection; stop: AbortController } | null>(null);

  const run = async (format: Format, collection: Collection) => {
    const stop = new AbortController();
    running.current = { collection, stop };
    setState({ format, count: collection.writer.count, error: null, busy: true });
    try {
      await collection.run(stop.signal, (count) => setState({ format, count, error: null, busy: true }));
      download(collection.writer.parts, fileName(format), FORMATS[format].type);
      setState(null);
    } catch (error) {
      if (!stop.signal.aborted) {
        setState({ format, count: collection.writer.count, error, busy: false });
      }
    }
  };
  const begin = (format: Format) => {
    const filter = filterOf(asked, new Date());
    const { request } = asked;
    const collection = new Collection(
      format,
      (cursor, signal) => auditPage(filter, cursor, PAGE, signal),
      request === undefined ? undefined : (record) => record.request_id === request,
    );
    void run(format, collection);
  };
  const cancel = () => {
    running.current?.stop.abort();
    running.current = null;
    setState(null);
  };

  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <Button variant="default" leftSection={<IconDownload size={16} aria-hidden />}>
            Export
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label>All records that match the filters</Menu.Label>
          {(Object.keys(FORMATS) as Format[]).map((format) => (
            <Menu.Item key={format} onClick={() => begin(format)}>
              {FORMATS[format].label}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      <Modal
        opened={state !== null}
        onClose={cancel}
        title="Exporting"
        centered
        closeOnClickOutside={false}
        withCloseButton={false}
      >
        {state !== null && (
          <Stack gap="md">
            <Text role="status">{state.count.toLocaleString("en")} records so far</Text>
            {state.error !== null && <ErrorNotice error={state.error} title="The export failed" />}
            <Group justify="flex-end">
              <Button variant="default" onClick={cancel} data-autofocus>
                Cancel
              </Button>
              {state.error !== null && (
                <Button
                  onClick={() =>
                    running.current !== null && void run(state.format, running.current.collection)
                  }
                >
                  Continue
                </Button>
              )}
            </Group>
          </Stack>
        )}
      </Modal>
    </>
  );
}

function fileName(format: Format): string {
  return `audit-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.${format}`;
}
