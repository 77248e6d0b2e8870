/** What a machine takes of its host. */
export interface Stats {
  /** CPU-nanoseconds of the virtual CPUs since their process began; null without a process. */
  readonly cpuNs: bigint | null;
  /** Bytes that are this machine's alone: off this host where its state is stored, else on its disk. */
  readonly storedBytes: number;
}
