/**
 * What looks at a machine from inside: one program, so that nothing need be installed in it. It syncs the disks first, as
 * before a pause: what no program has synced was never acknowledged. Its words: drill, and for the look after the kill the
 * process and the paths of the look before.
 */
export const LOOK = String.raw`
import glob, hashlib, json, os, subprocess, sys
drill, process, paths = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
marker = "/dev/shm/rouse-" + drill
first = process == ""

def born(pid):
    try:
        with open("/proc/%s/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[19]
    except OSError:
        return None

def alive(process):
    pid, _, at = process.partition(":")
    return born(pid) == at

def newest():
    found, seen = [], 0
    for folder, folders, names in os.walk("/workspace"):
        folders[:] = [name for name in folders if name not in (".checkpoints", ".cache")]
        for name in names:
            seen += 1
            path = os.path.join(folder, name)
            try:
                path.encode()
                about = os.lstat(path)
            except (OSError, UnicodeError):
                continue
            if len(path.encode()) <= 256 and about.st_mode & 0o170000 == 0o100000:
                found.append((about.st_mtime, path))
        if seen > 20000:
            break
    return [path for _, path in sorted(found, reverse=True)[:FILES]]

def see(path):
    try:
        about = os.lstat(path)
        hashed = None
        if about.st_size <= HASHED:
            with open(path, "rb") as file:
                hashed = hashlib.sha256(file.read()).hexdigest()
        return [path, about.st_size, int(about.st_mtime * 1000), hashed]
    except OSError:
        return None

def checkpoints():
    found = []
    for folder in sorted(glob.glob("/workspace/.checkpoints/*"))[:100]:
        for path in sorted(glob.glob(folder + "/v*.checkpoint"), reverse=True):
            try:
                with open(path, "rb") as file:
                    line, _, body = file.read().partition(b"\n")
                header = json.loads(line[65:])
                if hashlib.sha256(line[65:]).hexdigest().encode() != line[:64]:
                    continue
                if hashlib.sha256(body).hexdigest() != header["sha256"]:
                    continue
                found.append({"name": header["name"], "version": header["version"], "step": header["step"]})
                break
            except (OSError, ValueError, KeyError):
                continue
    return found

if first:
    os.sync()
    with open(marker, "w") as file:
        file.write(drill)
    none = subprocess.DEVNULL
    child = subprocess.Popen(["sleep", "3600"], stdin=none, stdout=none, stderr=none, start_new_session=True)
    process = "%d:%s" % (child.pid, born(child.pid))
try:
    with open(marker) as file:
        marked = file.read() == drill
except OSError:
    marked = False
files = [seen for seen in map(see, newest() if first else paths) if seen]
with open("/proc/sys/kernel/random/boot_id") as file:
    boot = file.read().strip()
said = {"bootId": boot, "files": files, "marker": marked, "alive": alive(process), "process": process}
said["checkpoints"] = checkpoints()
if not first:
    if said["alive"]:
        os.kill(int(process.partition(":")[0]), 9)
    if marked:
        os.unlink(marker)
print(json.dumps(said))
`;
