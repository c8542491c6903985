# The box's outbound proxy: names mapped to its own ports, hosts that are left alone, and an upstream. Without arguments
# it changes or shows the settings as stdin asks; as "serve" it is the proxy. Embedded by proxy.c.
import sys, os, re, json, time, fcntl, fnmatch, ipaddress, socket, asyncio, base64, contextlib, subprocess, urllib.parse
HOME = os.path.expanduser('~/.config/sandglass'); FILE = HOME + '/proxy.json'; PORT = 8118
class Bad(Exception): pass
def load():
    try:
        with open(FILE) as f: return json.load(f)
    except (OSError, ValueError): return {'mappings': [], 'excludes': [], 'upstream': None}
@contextlib.contextmanager
def change():
    """The settings, which are kept if nothing goes wrong. Those who change them wait for each other."""
    os.makedirs(HOME, exist_ok=True); fd = os.open(HOME, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX); c = load(); yield c
        with open(FILE + '.new', 'w') as f: json.dump(c, f)
        os.replace(FILE + '.new', FILE)
    finally: os.close(fd)
def is_port(text): return 0 < int(text) < 65536
def route(source, target):
    m = re.fullmatch(r'(?:(https?)://)?([A-Za-z0-9.*_-]+)(?::(\d{1,5}))?(/[^\s?#]*)?', source)
    if not m or (m.group(3) and not is_port(m.group(3))): raise Bad('source: %r is not [proto://]host[:port][/path]; proto is http or https, a port 1 to 65535' % source)
    t = re.fullmatch(r'(?:http://)?(?:([A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\])?:)?(\d{1,5})(/[^\s?#]*)?', target)
    if not t or not is_port(t.group(2)): raise Bad('target: %r is not [host:]port[/path]; a port is 1 to 65535' % target)
    return {'source': source, 'target': target, 'source_host': m.group(2), 'source_path': m.group(4) or '/', 'internal_port': int(t.group(2)), 'proto': m.group(1),
            'port': int(m.group(3) or 0), 'host': t.group(1) or '127.0.0.1', 'path': (t.group(3) or '').rstrip('/')}
def covers(pattern, path):
    if '*' in pattern: return re.match('.*'.join(map(re.escape, pattern.split('*'))), path)
    return path == pattern or path.startswith(pattern.rstrip('/') + '/')
def mapping_of(c, scheme, host, port, path):
    """The closest of those that fit: the host without a wildcard first, then the longest path."""
    scheme = {'ws': 'http', 'wss': 'https'}.get(scheme, scheme)
    fit = [r for r in c['mappings'] if fnmatch.fnmatch(host.lower(), r['source_host'].lower()) and r['proto'] in (None, scheme) and r['port'] in (0, port) and (path is None or covers(r['source_path'], path))]
    return max(fit, key=lambda r: ('*' not in r['source_host'], len(r['source_host']), len(r['source_path'])), default=None)
def target_of(r): return r.get('host', '127.0.0.1'), r['internal_port']
def path_at(r, path):
    """A target's path stands for the source's."""
    return r['path'] + '/' + path[len(r['source_path'].split('*')[0].rstrip('/')):].lstrip('/') if r.get('path') else path
def excluded(c, host):
    for p in c['excludes']:
        if fnmatch.fnmatch(host.lower(), p.lower()) or host.lower().endswith('.' + p.lstrip('*.').lower()): return True
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(p, strict=False): return True
        except ValueError: pass
    return False
def reaches(host, port, seconds=3):
    try: socket.create_connection((host.strip('[]'), port), seconds).close(); return True
    except (OSError, UnicodeError): return False
NOT_FOR_US = 'not an absolute URL'
def is_ours():
    """Does this proxy listen on the port, and not another program? It is asked for what only a proxy refuses, in its own words."""
    try:
        with socket.create_connection(('127.0.0.1', PORT), 1) as s:
            s.settimeout(2); s.sendall(b'GET / HTTP/1.0\r\n\r\n'); got = b''
            while len(got) < 4096 and (d := s.recv(4096)): got += d
    except OSError: return False
    return got.startswith(b'HTTP/1.1 502 ') and got.endswith(NOT_FOR_US.encode() + b'\n')
def shown(r): return {k: r[k] for k in ('source', 'target', 'source_host', 'source_path', 'internal_port')}
def upstream(server):
    m = re.fullmatch(r'(?:http://)?(?:([^:@/\s]+)(?::(\S*))?@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):(\d{1,5})/?', server)
    if not m or not is_port(m.group(4)): raise Bad('server: not [http://][user:pass@]host:port of an HTTP proxy; a port is 1 to 65535')
    plain = lambda s: None if s is None else urllib.parse.unquote(s)
    return {'addr': '%s:%s' % (m.group(3), m.group(4)), 'username': plain(m.group(1)), 'password': plain(m.group(2))}
def ask_for_credentials(command):
    try: p = subprocess.run(['bash', '-c', command], capture_output=True, timeout=10, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired: raise Bad('auth_cmd: not over within 10 s')
    user, colon, secret = p.stdout.decode(errors='replace').strip().partition(':')
    if p.returncode or not colon: raise Bad('auth_cmd: exit code %d, and its output is %s. %s' % (p.returncode, 'user:pass' if colon else 'not user:pass', p.stderr.decode(errors='replace')[-300:]))
    return {'username': user, 'password': secret}
def is_pattern(p):
    if '/' in p or ':' in p:
        try: return bool(ipaddress.ip_network(p, strict=False))
        except ValueError: return False
    return re.fullmatch(r'[A-Za-z0-9.*_-]{1,255}', p)
def manage(ask):
    c = load(); a = ask['action']
    if a == 'mappings': return [shown(r) for r in c['mappings']]
    if a == 'map':
        r = route(ask['source'], ask['target'])
        with change() as c:
            c['mappings'] = [o for o in c['mappings'] if o['source'] != r['source']] + [r]
            if len(c['mappings']) > 256: raise Bad('source: there are 256 mappings; remove one')
        return shown(r)
    if a == 'unmap':
        with change() as c:
            kept = [o for o in c['mappings'] if o['source'] != ask['source']]
            if len(kept) == len(c['mappings']): raise KeyError('Mapping not found: ' + ask['source'])
            c['mappings'] = kept
        return None
    if a == 'excludes': return c['excludes']
    if a == 'exclude':
        if not is_pattern(ask['pattern']): raise Bad('pattern: %r is neither a domain nor a CIDR' % ask['pattern'])
        with change() as c:
            if ask['pattern'] not in c['excludes']: c['excludes'].append(ask['pattern'])
            if len(c['excludes']) > 256: raise Bad('pattern: there are 256 excludes; remove one')
        return None
    if a == 'include':
        with change() as c:
            if ask['pattern'] not in c['excludes']: raise KeyError('Exclude not found: ' + ask['pattern'])
            c['excludes'].remove(ask['pattern'])
        return None
    if a == 'upstream': u = c['upstream']; return {k: u[k] for k in ('addr', 'username', 'password')} if u else None
    if a == 'set_upstream':
        u = upstream(ask['server']); u['auth_cmd'] = ask.get('auth_cmd')
        if u['auth_cmd']: u.update(ask_for_credentials(u['auth_cmd']))
        with change() as c: c['upstream'] = u
        return {k: u[k] for k in ('addr', 'username', 'password')}
    if a == 'remove_upstream':
        with change() as c: c['upstream'] = None
        return None
    if a == 'health':
        up = is_ours(); need = bool(c['mappings'] or c['upstream']); taken = not up and reaches('127.0.0.1', PORT, 1)
        bad = [('another program listens on port %d' if taken else 'the proxy does not listen on port %d') % PORT] if need and not up else []
        return {'healthy': not bad, 'gost_alive': up or not need, 'nginx_alive': up or not need, 'config_consistent': not bad, 'inconsistencies': bad, 'listens': up}
    try: u = urllib.parse.urlsplit(ask['url']); host, port = u.hostname, u.port or (443 if u.scheme in ('https', 'wss') else 80)
    except ValueError as e: raise Bad('url: %s' % e)
    if not host or not u.scheme: raise Bad('url: %r is not http://host/path' % ask['url'])
    m = mapping_of(c, u.scheme, host, port, u.path or '/')
    out = {'url': ask['url'], 'matched_mapping': shown(m) if m else None, 'route': 'mapping' if m else 'direct'}
    if m: to = target_of(m)
    elif excluded(c, host): to = host, port; out['route'] = 'exclude'
    elif c['upstream']: h, _, p = c['upstream']['addr'].rpartition(':'); to = h, int(p); out['route'] = 'upstream'
    else: to = host, port
    out.update(resolved_target='%s:%d' % to + (path_at(m, u.path or '/') if m and m.get('path') else ''), target_reachable=reaches(*to))
    return out
fresh = {} # credentials by their command, and until when they are
async def credentials(u):
    """Tokens get old: a command is asked again, but not for each of a page's requests. If it fails, the last ones have to do."""
    cmd = u.get('auth_cmd')
    if cmd and fresh.get(cmd, (0,))[0] < time.monotonic():
        try: fresh[cmd] = time.monotonic() + 10, await asyncio.to_thread(ask_for_credentials, cmd)
        except Exception: pass
    u = fresh[cmd][1] if cmd in fresh else u
    return '%s:%s' % (u['username'], u['password'] or '') if u['username'] else None
async def copy(a, b):
    try:
        while True:
            d = await a.read(65536)
            if not d: break
            b.write(d); await b.drain()
    except OSError: pass
    finally:
        try: b.write_eof()
        except (OSError, RuntimeError): pass
async def serve_one(r, w):
    try:
        head = await asyncio.wait_for(r.readuntil(b'\r\n\r\n'), 60); line, _, rest = head.partition(b'\r\n')
        method, target, version = line.decode('latin-1').split(' '); c = load()
        if method == 'CONNECT': host, _, port = target.rpartition(':'); scheme, path, port = 'https', None, int(port)
        else:
            u = urllib.parse.urlsplit(target); scheme, host = u.scheme, u.hostname or ''
            port = u.port or 80; path = u.path or '/'
            if not host: raise ValueError(NOT_FOR_US)
        m = mapping_of(c, scheme, host, port, path); up = c['upstream'] if not m and not excluded(c, host) else None
        if m: at = target_of(m)
        elif up: h, _, p = up['addr'].rpartition(':'); at = (h, int(p))
        else: at = (host, port)
        try: br, bw = await asyncio.wait_for(asyncio.open_connection(at[0].strip('[]'), at[1]), 15)
        except Exception as e: raise OSError('%s:%d for %s: %s' % (*at, host, e or 'not reached within 15 s'))
        rest = re.sub(rb'(?im)^proxy-(connection|authorization):.*\r\n', b'', rest)
        # One request for each connection: the next one may be for another host, and go another way.
        if method != 'CONNECT' and not re.search(rb'(?im)^upgrade:', rest): rest = b'Connection: close\r\n' + re.sub(rb'(?im)^(connection|keep-alive):.*\r\n', b'', rest)
        if up:
            auth = await credentials(up)
            extra = b'Proxy-Authorization: Basic ' + base64.b64encode(auth.encode()) + b'\r\n' if auth else b''
            bw.write(line + b'\r\n' + extra + rest)
        elif method == 'CONNECT': w.write(b'HTTP/1.1 200 Connection established\r\n\r\n')
        else:
            if m: path = path_at(m, path)
            bw.write(('%s %s %s\r\n' % (method, path + ('?' + u.query if u.query else ''), version)).encode('latin-1') + rest)
        await asyncio.gather(copy(r, bw), copy(br, w)); bw.close()
    except Exception as e:
        try: w.write(b'HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n' + str(e).encode() + b'\n'); await w.drain()
        except Exception: pass
    finally: w.close()
async def main(ready):
    async with await asyncio.start_server(serve_one, '127.0.0.1', PORT) as s: os.close(ready); await s.serve_forever()
def start():
    """Returns when the proxy listens, or cannot."""
    there, ready = os.pipe()
    if os.fork(): os.close(ready); os.read(there, 1); return
    os.setsid(); null = os.open('/dev/null', os.O_RDWR)
    for fd in 0, 1, 2: os.dup2(null, fd)
    asyncio.run(main(ready))
if sys.argv[1:] == ['serve']: start()
else:
    try:
        ask = json.load(sys.stdin); r = manage(ask); c = load()
        start_it = bool(c['mappings'] or c['upstream']) and not reaches('127.0.0.1', PORT, 1)
        if start_it:
            with open(HOME + '/proxy.py.%d' % os.getpid(), 'w') as f: f.write(ask['script'])
            os.replace(f.name, HOME + '/proxy.py')
        json.dump({'result': r, 'start': start_it}, sys.stdout)
    except KeyError as e: json.dump({'missing': e.args[0]}, sys.stdout)
    except Bad as e: json.dump({'error': str(e)}, sys.stdout)
    except Exception as e: json.dump({'error': '%s: %s' % (type(e).__name__, e)}, sys.stdout)
