/** A whole host agent in one object: driver, journal, machines, HTTP, reports. `main.ts` runs one; tests run many. */
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import type { Server } from "node:http";
import { join } from "node:path";
import type { Heartbeat } from "../sdk/contract/host.ts";
import { isSnapshotId, isVolumeCopyId } from "../sdk/contract/names.ts";
import type { Config } from "./config.ts";
import { HostDrills } from "./http/drills.ts";
import { hostServer } from "./http/server.ts";
import type { Driver } from "./machine/driver.ts";
import { ArchiveEdge } from "./archive/edge.ts";
import { EdgeBlobs } from "./archive/edge-blobs.ts";
import { Sealer } from "./archive/sealer.ts";
import { Archiver, type ArchiverOptions } from "./machine/archiver.ts";
import { relief } from "./machine/disk-relief.ts";
import { Captures } from "./machine/captures.ts";
import { Differences } from "./machine/differences.ts";
import { Machines } from "./machine/machines.ts";
import { HostOutside } from "./egress/host-outside.ts";
import { recallEgress } from "./egress/recall.ts";
import { MachineVolumes } from "./machine/volumes.ts";
import { Bases } from "./machine/qemu/bases.ts";
import { lineProgress } from "./progress.ts";
import { capacity } from "./report/capacity.ts";
import { HostLease } from "./machine/host-lease.ts";
import { Fence } from "./machine/fence.ts";
import { roomBelow } from "./machine/room.ts";
import { Warden } from "./machine/warden.ts";
import { EdgeClock } from "./report/edge-clock.ts";
import { EgressReporter } from "./report/egress-report.ts";
import { Meter } from "./report/meter.ts";
import { Metering } from "./report/metering.ts";
import { Reporter } from "./report/reporter.ts";
import { Journal } from "./store/journal.ts";
import { UsageStore } from "./store/usage.ts";

export interface HostAgent {
  readonly url: string;
  readonly machines: Machines;
  readonly driver: Driver;
  /** End in order: pause what runs, tell the edge, close. */
  shutdown(): Promise<void>;
}

export async function startHostAgent(config: Config, driver: Driver, log: (entry: object) => void): Promise<HostAgent> {
  await mkdir(config.stateDir, { recursive: true, mode: 0o700 });
  const journal = new Journal(join(config.stateDir, "journal.sqlite"));
  const lease = new HostLease({ file: join(config.stateDir, "host-lease") });
  // Fake machines are processes of a few MiB.
  const room = driver.accelerator === "fake" ? null : roomBelow(config.stateDir, config.memoryMiB);
  const drop = (id: string): boolean => {
    const gone = isSnapshotId(id) ? captures.drop(id) : isVolumeCopyId(id) ? volumes?.drop(id) : undefined;
    gone?.catch(() => undefined);
    return gone !== undefined;
  };
  const { archiver = null, differences = null } = storedStates(config, driver, log, {
    onStored: (id) => void (drop(id) || metering.resized(id)),
    onUnwanted: drop,
  });
  const captures = new Captures(driver, journal, archiver);
  const { sleepers } = driver;
  const volumes = archiver && sleepers ? new MachineVolumes(driver, sleepers.volumes, journal, archiver) : null;
  const outside = await HostOutside.open({ ...config.egress, edgeUrl: config.edgeUrl, hostKey: config.hostKey });
  const machines = new Machines(driver, journal, config, {
    outside,
    recall: (machine) => recallEgress(config, machine),
    mayRun: () => lease.holds,
    session: () => lease.session,
    room,
    saved: archiver,
    captures,
    volumes,
    differences,
  });
  machines.on("action", log);
  machines.on("state", (row) => archiver?.observe(row));
  machines.on("gone", (id) => archiver?.forget(id));
  const usage = new UsageStore(join(config.stateDir, "usage.sqlite"));
  const meter = new Meter(usage);
  const metering = new Metering(machines, driver, meter);
  await machines.reclaim();

  const edgeClock = new EdgeClock();
  let url = "";
  let draining = false;
  const heartbeat = async (): Promise<Heartbeat> => {
    const all = machines.list();
    const free = room ? await room.read() : await capacity(config.stateDir);
    for (const { id, depth } of archiver ? relief(all, free.freeDiskMiB, draining) : [])
      void machines.settle(id, depth).catch(() => undefined);
    return {
      hostId: config.hostId,
      url,
      accelerator: driver.accelerator,
      acceleratorReason: driver.acceleratorReason,
      qemuVersion: driver.qemuVersion,
      images: [...driver.images],
      compatibility: driver.compatibility,
      session: lease.session,
      ...free,
      running: all.filter((machine) => machine.state === "running").length,
      paused: all.filter((machine) => machine.state === "paused").length,
      unstored: archiver ? (await archiver.unstored(all)) + journal.volumes().length : all.length,
    };
  };
  const { hostKey, controlSecret, ticketSecret, edgeUrl, usageSeconds } = config;
  const server = await hostServer({
    ...{ machines, controlSecret, ticketSecret, about: heartbeat },
    drills: new HostDrills({ stateDir: config.stateDir, allowed: config.drills, edgePidFile: config.edgePidFile }),
    now: () => edgeClock.now(),
  });
  server.listen(config.listen.port, config.listen.host);
  await once(server, "listening");
  url = config.hostUrl ?? `http://${config.listen.host}:${(server.address() as AddressInfo).port}`;

  // The fake driver's processes end with this one.
  const warden = driver.accelerator === "fake" ? null : new Warden(config.stateDir);
  await warden?.watch();
  const fence = new Fence(lease, machines, (id) => reporter.fateOf(id));
  const reporter = new Reporter({
    ...{ edgeUrl, hostKey, machines, heartbeat, meter, metering, usageSeconds, lease, fence, edgeClock },
    onBeat: () => void warden?.watch(),
    onTaken: (is) => (draining = is),
  });
  await reporter.start();
  const egressReporter = new EgressReporter({ edgeUrl, hostKey, takeReports: () => outside.news() });
  egressReporter.start();
  machines.on("state", ({ state }) => {
    if (state === "paused" || state === "stopped") void egressReporter.send();
  });
  return {
    url,
    machines,
    driver,
    shutdown: async () => {
      fence.close();
      const failed = await machines.shutdown();
      if (failed.length === 0) await warden?.dismiss();
      if (failed.length > 0) log({ level: "warn", message: "could not be paused and run on", machines: failed });
      await reporter.sendEvents();
      await reporter.sendUsage(0);
      await egressReporter.close();
      outside.close();
      reporter.close();
      await closeServer(server);
      await archiver?.close();
      await machines.close();
      usage.close();
    },
  };
}

/** Nothing: with this driver, or these settings, states stay on this host. */
function storedStates(
  config: Config,
  driver: Driver,
  log: (entry: object) => void,
  on: Pick<ArchiverOptions, "onStored" | "onUnwanted">,
): { archiver?: Archiver; differences?: Differences } {
  const { sleepers } = driver;
  const { archiveSeconds, edgeUrl, hostKey, imagesDir, uploadBytesPerSecond } = config;
  if (!sleepers || archiveSeconds === null) return {};
  const edge = new ArchiveEdge(edgeUrl, hostKey);
  const store = new EdgeBlobs({ edgeUrl, hostKey, uploadBytesPerSecond });
  const blobs = (ticket: string) => store.with(ticket);
  const sealer = new Sealer();
  const bases = new Bases({ golden: sleepers.golden, imagesDir, edge, blobs, sealer, progress: lineProgress });
  const { files, volumes } = sleepers;
  return {
    archiver: new Archiver({ files, volumes, bases, edge, blobs, sealer, archiveSeconds, log, ...on }),
    differences: new Differences({ driver, files, bases, blobs, log }),
  };
}

async function closeServer(server: Server): Promise<void> {
  server.close();
  server.closeAllConnections();
  if (server.listening) await once(server, "close");
}
