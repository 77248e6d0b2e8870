/** What `worker/dashboard/build.ts` writes: the dashboard's files, packed. */
declare module "*/dashboard/dist/files.js" {
  export interface BuiltFile {
    /** Content type. */
    readonly type: string;
    /** Of the unpacked bytes, quoted. */
    readonly etag: string;
    /** Gzip, in base64. */
    readonly gzip: string;
  }
  /** By path below `/dashboard/`. */
  export const files: Readonly<Record<string, BuiltFile>>;
}
