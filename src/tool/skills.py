# Skills of a box: directories with a SKILL.md. Reads {"action": ...} from stdin, prints the answer. Embedded by skills.c.
import sys, os, io, re, json, base64, contextlib, fcntl, shutil, subprocess, tempfile, zipfile, zlib
ask = json.load(sys.stdin)
ROOT = os.path.realpath(os.path.expanduser(os.environ.get('AIO_SKILLS_PATH') or '~/.skills'))
INDEX = os.path.join(ROOT, '.index.json')
LIMIT = 4 << 20
class Bad(Exception): pass
# Bytes of names that are no UTF-8: as base/path.h writes them, and as Python does.
def named(t): return re.sub('[\uef80-\uefff]', lambda m: chr(ord(m.group()) - 0x1300), t)
def told(t): return re.sub('[\uef80-\uefff\udc80-\udcff]', lambda m: ''.join(chr(0xef00 + b) for b in m.group().encode('utf-8', 'surrogateescape')), t)
def inside(path, top): return path == top or path.startswith(top + os.sep)
def has(path): return os.path.isfile(os.path.join(path, 'SKILL.md'))
def read(path):
    with open(os.path.join(path, 'SKILL.md'), 'rb') as f: text = f.read(LIMIT + 1)
    if len(text) > LIMIT: raise Bad('SKILL.md of %s is larger than 4 MiB' % told(path))
    return text.decode('utf-8', 'replace')
# --- the beginning of SKILL.md: YAML, as far as such beginnings use it ---
def scalar(t):
    t = t.strip(); q = re.fullmatch(r'("(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\')\s*(?:#.*)?', t)
    if q:
        if t[0] == "'": return q.group(1)[1:-1].replace("''", "'")
        try: return json.loads(q.group(1))
        except ValueError: return q.group(1)[1:-1]
    t = re.sub(r'(^|\s)#.*', '', t).strip()
    if t.startswith('[') and t.endswith(']'): return [scalar(x) for x in re.findall(r'"[^"]*"|\'[^\']*\'|[^,\s][^,]*', t[1:-1])]
    if t in ('', '~', 'null'): return None
    if t.lower() in ('true', 'false'): return t.lower() == 'true'
    if re.fullmatch(r'[-+]?(0|[1-9]\d{0,17})', t): return int(t)
    return float(t) if re.fullmatch(r'-?\d{1,9}\.\d{1,6}', t) and repr(float(t)) == t else t # a version 1.10 is no number
def depth(l): return len(l) - len(l.lstrip())
def block(lines, mark):
    """A text below its key: | keeps its lines, > folds them, without a mark it is folded, too."""
    left = min([depth(l) for l in lines if l.strip()] or [0]); lines = [l[left:].rstrip() for l in lines]
    text = '\n'.join(lines) if mark.startswith('|') else re.sub(r'(?<!\n)\n(?!\n)', ' ', '\n'.join(lines)).replace('\n\n', '\n')
    text = text.strip('\n')
    return text + '\n' if mark[:1] in ('|', '>') and '-' not in mark and text else text
def mapping(lines):
    out, i = {}, 0
    while i < len(lines):
        m = re.match(r'\s*([^\s#:\'"][^:]*?|"[^"]*"|\'[^\']*\')\s*:(?:\s+(.*))?$', lines[i]); own = depth(lines[i]); i += 1
        if not m: continue
        below = []
        while i < len(lines) and (not lines[i].strip() or depth(lines[i]) > own or (not m.group(2) and depth(lines[i]) == own and re.match(r'\s*-(\s|$)', lines[i]))):
            below.append(lines[i]); i += 1
        value, some = (m.group(2) or '').strip(), [l for l in below if l.strip() and not l.lstrip().startswith('#')]
        if re.fullmatch(r'[|>][-+0-9]*', value): got = block(below, value)
        elif value or not some: got = scalar(' '.join([value] + [l.strip() for l in below if l.strip()]))
        elif re.match(r'\s*-(\s|$)', some[0]): got = [scalar(l.strip()[1:]) for l in some if l.strip().startswith('-')]
        elif ':' in some[0]: got = mapping(some)
        else: got = block(below, '')
        out[str(scalar(m.group(1)))] = got
    return out
def front(text):
    m = re.match(r'\ufeff?---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)', text, re.S)
    return mapping([l.expandtabs().rstrip() for l in m.group(1).split('\n')]) if m else {}
# --- what is registered ---
def name_of(given, meta, path):
    name = given or meta.get('name') or os.path.basename(path); name = name if isinstance(name, str) else json.dumps(name)
    if not re.fullmatch(r'(?!\.)[^/\x00-\x1f\x7f]{1,128}', told(name)) or len(name.encode('utf-8', 'surrogateescape')) > 128:
        raise Bad('name: %r is not a name: up to 128 bytes, without / and control characters, not beginning with a dot' % told(name))
    return told(name)
def index():
    """Registered skills that are still there, and those that somebody laid into the directory of skills; as they are now."""
    try:
        with open(INDEX) as f: kept = {k: {**v, **{p: named(v[p]) for p in ('path', 'top') if p in v}} for k, v in json.load(f).items() if has(named(v['path']))}
    except (OSError, ValueError, TypeError, KeyError, AttributeError): kept = {}
    known = {s['path'] for s in kept.values()}
    for d in sorted(os.listdir(ROOT)) if os.path.isdir(ROOT) else []:
        path = os.path.join(ROOT, d)
        if d.startswith('.') or path in known or not has(path): continue
        try: kept.setdefault(name_of(None, front(read(path)), path), {'path': path, 'dependency_commands': []})
        except (Bad, OSError): pass
    return kept
def shown(name, s):
    try: meta = front(read(s['path']))
    except (Bad, OSError): meta = {}
    return {'name': name, 'path': told(s['path']), 'metadata': meta, 'dependency_commands': s['dependency_commands']}
def save(skills):
    with open(INDEX + '.new', 'w') as f: json.dump({k: {**v, **{p: told(v[p]) for p in ('path', 'top') if p in v}} for k, v in skills.items()}, f)
    os.replace(INDEX + '.new', INDEX)
@contextlib.contextmanager
def locked():
    """Those who change the index or the directory wait for each other."""
    os.makedirs(ROOT, exist_ok=True); fd = os.open(ROOT, os.O_RDONLY | os.O_CLOEXEC)
    try: fcntl.flock(fd, fcntl.LOCK_EX); yield
    finally: os.close(fd)
def install(path):
    done = []
    for f, cmd in (('requirements.txt', ['python3', '-m', 'pip', 'install', '--user', '--break-system-packages', '-q', '-r', 'requirements.txt']), ('package.json', ['npm', 'install', '--silent'])):
        if not os.path.isfile(os.path.join(path, f)): continue
        try:
            p = subprocess.run(cmd, cwd=path, capture_output=True, timeout=240, stdin=subprocess.DEVNULL)
            done.append({'command': cmd, 'success': p.returncode == 0, 'stdout': p.stdout.decode(errors='replace')[-4000:], 'stderr': p.stderr.decode(errors='replace')[-4000:]})
        except Exception as e: done.append({'command': cmd, 'success': False, 'stdout': None, 'stderr': str(e)})
    return done
def found_in(path):
    out = []
    for base, dirs, files in os.walk(path):
        if 'SKILL.md' in files: out.append(base); dirs[:] = []
        if base.count(os.sep) - path.count(os.sep) >= 4: dirs[:] = []
        dirs[:] = [d for d in dirs if d not in ('.git', 'node_modules', '__MACOSX')]
    return sorted(out)
def unpack(data, to):
    try:
        z = zipfile.ZipFile(io.BytesIO(data))
        if len(z.infolist()) > 10000 or sum(i.file_size for i in z.infolist()) > 256 << 20: raise Bad('file: more than 10000 entries or 256 MiB')
        for i in z.infolist():
            if not inside(os.path.normpath(os.path.join(to, i.filename)), to): raise Bad('file: entry %r leads out of the directory' % i.filename)
            if (i.external_attr >> 16) & 0o170000 == 0o120000: raise Bad('file: entry %r is a symbolic link' % i.filename)
            made = z.extract(i, to)
            if (i.external_attr >> 16) & 0o111 and not i.is_dir(): os.chmod(made, 0o755) # scripts stay programs
    except (zipfile.BadZipFile, zlib.error, EOFError): raise Bad('file: not a zip archive, or a damaged one')
    except (RuntimeError, NotImplementedError) as e: raise Bad('file: %s' % e) # a password, a method that is not known
def names_in(places):
    out = {}
    for p in places:
        name = name_of(ask.get('name') if len(places) == 1 else None, front(read(p)), p)
        if name in out: raise Bad('two skills have the name %r: %s and %s' % (name, told(out[name]), told(p)))
        out[name] = p
    return out
def wipe(path):
    if os.path.islink(path): os.unlink(path) # what it leads to is somebody else's
    else: shutil.rmtree(path, ignore_errors=True)
def settle(new, top, skills):
    """Where an archive without a path is to stay: under its skill's name, in place of what had that name, of nothing else."""
    stem, n = named(ask.get('name') or next(iter(new))), 1; to = os.path.join(ROOT, stem)
    def is_ours(to): there = {k for k, s in skills.items() if inside(s['path'], to)}; return there and there <= new.keys()
    while os.path.lexists(to) and not is_ours(to): n += 1; to = os.path.join(ROOT, '%s-%d' % (stem, n))
    wipe(to); os.rename(top, to)
    return {k: to + p[len(top):] for k, p in new.items()}, to
def register():
    to = None # where an archive lies among the skills
    path = os.path.join(ask['workspace'], os.path.expanduser(named(ask['path']))) if ask.get('path') else None
    if ask.get('name'): name_of(ask['name'], {}, '')
    if ask.get('archive') is None:
        if not path: raise Bad('give path, or a zip archive as file')
        if not os.path.isdir(path): raise Bad('path: no directory %s' % told(path))
        new = names_in(found_in(os.path.realpath(path)))
        if not new: raise Bad('path: no SKILL.md in %s' % told(path))
    else:
        os.makedirs(ROOT, exist_ok=True); top = tempfile.mkdtemp(prefix='.new-', dir=ROOT)
        try:
            unpack(base64.b64decode(ask['archive']), top); os.chmod(top, 0o755); new = names_in(found_in(top))
            if not new: raise Bad('file: no SKILL.md in the archive')
            if path:
                os.makedirs(path, exist_ok=True); path = os.path.realpath(path); shutil.copytree(top, path, dirs_exist_ok=True)
                new = {k: path + p[len(top):] for k, p in new.items()}
            else:
                with locked(): new, to = settle(new, next(iter(new.values())) if len(new) == 1 else top, index())
        finally: shutil.rmtree(top, ignore_errors=True)
    made = {k: {'path': p, 'dependency_commands': install(p), **({'top': to} if to else {})} for k, p in new.items()}
    with locked(): save({**index(), **made})
    return {'registered': [shown(k, s) for k, s in made.items()], 'count': len(made)}
def remove(gone, left):
    """With the last skill of an archive goes what else was in it."""
    top = gone.get('top')
    for d in [gone['path']] + ([top] if top and not any(inside(s['path'], top) for s in left) else []):
        if inside(d, ROOT) and d != ROOT: wipe(d)
def one(skills):
    if ask.get('name') not in skills: raise KeyError(ask.get('name'))
    return skills[ask['name']]
try:
    a = ask['action']
    if a == 'register': r = register()
    elif a == 'list':
        names = [n.strip() for n in (ask.get('names') or '').split(',') if n.strip()]
        r = {'skills': [shown(n, s) for n, s in sorted(index().items()) if not names or n in names]}
    elif a == 'content': s = one(index()); r = {'name': ask['name'], 'path': told(s['path']), 'content': read(s['path'])}
    else:
        with locked():
            skills = index(); gone = {ask['name']: one(skills)} if a == 'remove' else skills
            r = shown(ask['name'], gone[ask['name']]) if a == 'remove' else {'cleared': len(gone)}
            left = {k: s for k, s in skills.items() if k not in gone}; save(left)
            for s in gone.values(): remove(s, left.values())
    json.dump({'result': r}, sys.stdout)
except KeyError as e: json.dump({'missing': 'Skill not found: %s' % e.args[0]}, sys.stdout)
except Bad as e: json.dump({'error': str(e)}, sys.stdout)
except Exception as e: json.dump({'error': '%s: %s' % (type(e).__name__, e)}, sys.stdout)
