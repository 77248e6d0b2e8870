/** The machines that carry sandboxes, for the operator: room, load, and whether they take more. */
import { useState } from "preact/hooks";
import type { Host } from "../../../sdk/src/index.ts";
import { rouse } from "../api.ts";
import { useDoing, useRead } from "../data.ts";
import { Empty, Loading, Pill, Time } from "../parts/bits.tsx";
import { FormDialog } from "../parts/dialog.tsx";
import { Fault } from "../parts/fault.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { count, mebibytes } from "../text.ts";

export function Hosts() {
  const list = useRead("hosts", (signal) => rouse.hosts({ signal }));
  const [draining, setDraining] = useState<Host | null>(null);
  const doing = useDoing();
  const fill = (host: Host) =>
    doing.run(host.hostId, async () => {
      await rouse.drainHost(host.hostId, { draining: false });
      list.reload();
      return `${host.hostId} takes new machines again`;
    });
  const columns: Column<Host>[] = [
    {
      title: "Host",
      bare: true,
      cell: ({ hostId, accelerator, acceleratorReason }) => (
        <div class="name-cell">
          <span class="name">{hostId}</span>
          <span class="quiet" title={acceleratorReason}>
            {accelerator === "kvm" ? "KVM" : accelerator === "tcg" ? "software emulation" : "no virtualisation"}
          </span>
        </div>
      ),
    },
    { title: "State", cell: (host) => stateOf(host) },
    {
      title: "Memory free",
      cell: ({ freeMemoryMiB, memoryMiB }) => (
        <div class="room">
          <meter
            min={0}
            max={memoryMiB}
            value={freeMemoryMiB}
            low={memoryMiB / 8}
            optimum={memoryMiB}
            aria-label="Memory free"
          />
          <span>
            {mebibytes(freeMemoryMiB)} <span class="quiet">of {mebibytes(memoryMiB)}</span>
          </span>
        </div>
      ),
    },
    { title: "Disk free", numeric: true, cell: ({ freeDiskMiB }) => mebibytes(freeDiskMiB) },
    {
      title: "Load",
      numeric: true,
      cell: ({ loadAverage, vcpus }) => (
        <>
          {loadAverage === undefined ? "–" : loadAverage.toFixed(1)} <span class="quiet">of {vcpus}</span>
        </>
      ),
    },
    { title: "Awake", numeric: true, cell: ({ running }) => running },
    { title: "Asleep", numeric: true, cell: ({ paused }) => paused },
    {
      title: "Actions",
      cell: (host) =>
        host.draining ? (
          <button type="button" class="quiet-button" disabled={doing.busy !== null} onClick={() => void fill(host)}>
            Take machines again<span class="unseen"> on {host.hostId}</span>
          </button>
        ) : (
          <button type="button" class="quiet-button dangerous" onClick={() => setDraining(host)}>
            Drain<span class="unseen"> {host.hostId}</span>
          </button>
        ),
    },
  ];
  return (
    <>
      <div class="view-head">
        <h1>Hosts</h1>
        <button type="button" onClick={list.reload}>
          Look again
        </button>
      </div>
      <Fault of={list.fault} />
      <Fault of={doing.fault} />
      {list.data === null && list.loading && <Loading />}
      {list.data?.length === 0 && (
        <Empty title="No host reports">
          <p>
            Without one nothing runs. Make its secrets with <code>rouse host add</code>, then start its agent: see
            docs/self-hosting.md.
          </p>
        </Empty>
      )}
      {list.data !== null && list.data.length > 0 && (
        <Table label="Hosts" columns={columns} rows={list.data} keyOf={({ hostId }) => hostId} />
      )}
      {draining && (
        <FormDialog
          title={`Drain ${draining.hostId}?`}
          submit="Drain"
          busy="Draining"
          danger
          onClose={() => setDraining(null)}
          onSubmit={async () => {
            await rouse.drainHost(draining.hostId);
            list.reload();
            return `${draining.hostId} takes no new machines`;
          }}
        >
          <p>
            It takes no new machines. {count(draining.running, "one that is awake goes", "that are awake go")} on;{" "}
            {count(draining.paused, "one that sleeps wakes", "that sleep wake")} on another host, once what it sleeps
            with is stored.
          </p>
          {draining.unstored !== undefined && draining.unstored > 0 && (
            <p>
              <strong>
                {count(draining.unstored, "machine or volume is", "machines or volumes are")} nowhere else yet.
              </strong>{" "}
              Leave the host up until there are none.
            </p>
          )}
        </FormDialog>
      )}
    </>
  );
}

function stateOf({ live, lost, draining, lastSeenAt }: Host) {
  if (lost) return <Pill tone="failed">Lost</Pill>;
  if (!live)
    return (
      <>
        <Pill tone="moving">Silent</Pill> <Time at={lastSeenAt} />
      </>
    );
  return draining ? <Pill tone="moving">Draining</Pill> : <Pill tone="running">Live</Pill>;
}
