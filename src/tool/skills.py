# Skills of a box: directories with a SKILL.md. Reads {"action": ...} from stdin, prints the answer. Embedded by skills.c.
import sys, os, io, re, json, base64, shutil, subprocess, zipfile
ask = json.load(sys.stdin)
ROOT = os.path.expanduser(os.environ.get('AIO_SKILLS_PATH') or '~/.skills')
INDEX = os.path.join(ROOT, '.index.json')
class Bad(Exception): pass
def index():
    try:
        with open(INDEX) as f: return {k: v for k, v in json.load(f).items() if os.path.isfile(os.path.join(v['path'], 'SKILL.md'))}
    except (OSError, ValueError): return {}
def save(skills):
    os.makedirs(ROOT, exist_ok=True)
    with open(INDEX + '.new', 'w') as f: json.dump(skills, f)
    os.replace(INDEX + '.new', INDEX)
def read(path):
    with open(os.path.join(path, 'SKILL.md'), encoding='utf-8', errors='replace') as f: return f.read(4 << 20)
def front(text):
    m = re.match(r'\ufeff?---\s*\n(.*?)\n---\s*(?:\n|$)', text, re.S)
    out, key = {}, None
    for line in (m.group(1).split('\n') if m else []):
        pair = re.match(r'([A-Za-z0-9_.-]+):\s*(.*)$', line)
        if pair:
            key = pair.group(1); out[key] = pair.group(2).strip().strip('"\'')
        elif key and re.match(r'\s*-\s+', line):
            if not isinstance(out[key], list): out[key] = []
            out[key].append(re.sub(r'^\s*-\s+', '', line).strip().strip('"\''))
        elif key and line.startswith((' ', '\t')) and isinstance(out[key], str): out[key] = (out[key].rstrip('|>') + ' ' + line.strip()).strip()
    return out
def install(path):
    done = []
    for f, cmd in (('requirements.txt', ['python3', '-m', 'pip', 'install', '--user', '--break-system-packages', '-q', '-r', 'requirements.txt']), ('package.json', ['npm', 'install', '--silent'])):
        if not os.path.isfile(os.path.join(path, f)): continue
        try:
            p = subprocess.run(cmd, cwd=path, capture_output=True, timeout=240, stdin=subprocess.DEVNULL)
            done.append({'command': cmd, 'success': p.returncode == 0, 'stdout': p.stdout.decode(errors='replace')[-4000:], 'stderr': p.stderr.decode(errors='replace')[-4000:]})
        except Exception as e: done.append({'command': cmd, 'success': False, 'stdout': None, 'stderr': str(e)})
    return done
def unpack(data, to):
    try: z = zipfile.ZipFile(io.BytesIO(data))
    except zipfile.BadZipFile: raise Bad('file: not a zip archive')
    if len(z.infolist()) > 10000 or sum(i.file_size for i in z.infolist()) > 256 << 20: raise Bad('file: more than 10000 entries or 256 MiB')
    to = os.path.realpath(to); os.makedirs(to, exist_ok=True)
    for i in z.infolist():
        target = os.path.realpath(os.path.join(to, i.filename))
        if target != to and not target.startswith(to + os.sep): raise Bad('file: entry %r leads out of the directory' % i.filename)
        if (i.external_attr >> 16) & 0o170000 == 0o120000: raise Bad('file: entry %r is a symbolic link' % i.filename)
    z.extractall(to)
def found_in(path):
    out = []
    for base, dirs, files in os.walk(path):
        if 'SKILL.md' in files: out.append(base); dirs[:] = []
        if base.count(os.sep) - path.count(os.sep) >= 4: dirs[:] = []
    return sorted(out)
def register():
    path = os.path.join(os.path.expanduser('~'), ask['path']) if ask.get('path') else None
    if ask.get('archive') is not None:
        path = path or os.path.join(ROOT, re.sub(r'[^A-Za-z0-9._-]', '_', ask.get('name') or 'skill'))
        unpack(base64.b64decode(ask['archive']), path)
    if not path: raise Bad('give path, or a zip archive as file')
    if not os.path.isdir(path): raise Bad('path: no directory %s' % path)
    places = found_in(os.path.realpath(path))
    if not places: raise Bad('no SKILL.md in %s' % path)
    skills, new = index(), []
    for p in places:
        meta = front(read(p)); name = (ask.get('name') if len(places) == 1 else None) or meta.get('name') or os.path.basename(p)
        if not isinstance(name, str) or '/' in name: raise Bad('name: %r is not a name' % (name,))
        skills[name] = {'name': name, 'path': p, 'metadata': meta, 'dependency_commands': install(p)}
        new.append(skills[name])
    save(skills)
    return {'registered': new, 'count': len(new)}
def one():
    s = index().get(ask.get('name'))
    if not s: raise KeyError(ask.get('name'))
    return s
try:
    a = ask['action']
    if a == 'register': r = register()
    elif a == 'list':
        names = [n.strip() for n in (ask.get('names') or '').split(',') if n.strip()]
        r = {'skills': [s for n, s in sorted(index().items()) if not names or n in names]}
    elif a == 'content': s = one(); r = {'name': s['name'], 'path': s['path'], 'content': read(s['path'])}
    elif a == 'remove':
        s = one(); skills = index(); del skills[s['name']]; save(skills); r = s
        if os.path.realpath(s['path']).startswith(os.path.realpath(ROOT) + os.sep): shutil.rmtree(s['path'], ignore_errors=True)
    else:
        r = {'cleared': len(index())}; save({})
    json.dump({'result': r}, sys.stdout)
except KeyError as e: json.dump({'missing': 'Skill not found: %s' % e.args[0]}, sys.stdout)
except Bad as e: json.dump({'error': str(e)}, sys.stdout)
except Exception as e: json.dump({'error': '%s: %s' % (type(e).__name__, e)}, sys.stdout)
