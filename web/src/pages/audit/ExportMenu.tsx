import { Button, Group, Menu, Modal, Stack, Text } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useRef, useState } from "react";
import { ErrorNotice } from "../../components/ErrorNotice";
import { download } from "../../lib/download";
import { ExportJob, FORMATS, type Format } from "./exportJob";
import { resolveFilter } from "./filter";
import { fetchAuditPage } from "./queries";
import type { AuditUrl } from "./url";

const PAGE_SIZE = 500;

type ExportState = { format: Format; count: number; error: unknown; busy: boolean };

/** Downloads all matching records as a file, including records that are not loaded. */
export function ExportMenu({ filters }: { filters: AuditUrl }) {
  const [state, setState] = useState<ExportState | null>(null);
  const running = useRef<{ job: ExportJob; controller: AbortController } | null>(null);

  const run = async (format: Format, job: ExportJob) => {
    const controller = new AbortController();
    running.current = { job, controller };
    setState({ format, count: job.writer.count, error: null, busy: true });
    try {
      await job.run(controller.signal, (count) => setState({ format, count, error: null, busy: true }));
      download(job.writer.parts, fileName(format), FORMATS[format].type);
      setState(null);
    } catch (error) {
      if (!controller.signal.aborted) {
        setState({ format, count: job.writer.count, error, busy: false });
      }
    }
  };
  const start = (format: Format) => {
    const filter = resolveFilter(filters, new Date());
    const { request } = filters;
    const job = new ExportJob(
      format,
      (cursor, signal) => fetchAuditPage(filter, cursor, PAGE_SIZE, signal),
      request === undefined ? undefined : (record) => record.request_id === request,
    );
    void run(format, job);
  };
  const cancel = () => {
    running.current?.controller.abort();
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
            <Menu.Item key={format} onClick={() => start(format)}>
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
                  onClick={() => running.current !== null && void run(state.format, running.current.job)}
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
