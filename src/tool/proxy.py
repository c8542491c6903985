# The box's outbound proxy: names mapped to its own ports, hosts that are left alone, and an upstream. Without arguments
# it changes or shows the settings as stdin asks; as "serve" it is the proxy. Embedded by proxy.c.
import sys, os, re, json, fnmatch, ipaddress, socket, asyncio, base64, subprocess, urllib.parse
HOME = os.path.expanduser('~/.config/sandglass'); FILE = HOME + '/proxy.json'; PORT = 8118
class Bad(Exception): pass
def load():
    try:
        with open(FILE) as f: return json.load(f)
    except (OSError, ValueError): return {'mappings': [], 'excludes': [], 'upstream': None}
def save(c):
    os.makedirs(HOME, exist_ok=True)
    with open(FILE + '.new', 'w') as f: json.dump(c, f)
    os.replace(FILE + '.new', FILE)
def route(source, target):
    m = re.match(r'(?:(https?)://)?(\*?[A-Za-z0-9.*_-]+)(?::(\d+))?(/.*)?$', source)
    if not m: raise Bad('source: %r is not [proto://]host[:port][/path]' % source)
    t = re.match(r'(?:https?://)?(?:(localhost|127\.0\.0\.1):)?(\d{1,5})/?$', target)
    if not t or not 0 < int(t.group(2)) < 65536: raise Bad('target: %r is not a port of this box' % target)
    return {'source': source, 'target': target, 'source_host': m.group(2), 'source_path': m.group(4) or '/', 'internal_port': int(t.group(2)), 'proto': m.group(1), 'port': int(m.group(3) or 0)}
def mapping_of(c, scheme, host, port, path):
    for r in c['mappings']:
        if fnmatch.fnmatch(host.lower(), r['source_host'].lower()) and r['proto'] in (None, scheme) and r['port'] in (0, port) and (path is None or path.startswith(r['source_path'])): return r
def excluded(c, host):
    for p in c['excludes']:
        if fnmatch.fnmatch(host.lower(), p.lower()) or host.lower().endswith('.' + p.lstrip('*.').lower()): return True
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(p, strict=False): return True
        except ValueError: pass
    return False
def alive(port):
    try: socket.create_connection(('127.0.0.1', port), 1).close(); return True
    except OSError: return False
def shown(r): return {k: r[k] for k in ('source', 'target', 'source_host', 'source_path', 'internal_port')}
def upstream(server):
    m = re.match(r'(?:http://)?(?:([^:@/]+)(?::(.*))?@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):(\d{1,5})/?$', server)
    if not m or not 0 < int(m.group(4)) < 65536: raise Bad('server: %r is not [http://]host:port or [http://]user:pass@host:port' % server)
    plain = lambda s: None if s is None else urllib.parse.unquote(s)
    return {'addr': '%s:%s' % (m.group(3), m.group(4)), 'username': plain(m.group(1)), 'password': plain(m.group(2))}
def manage(ask):
    c = load(); a = ask['action']
    if a == 'mappings': return [shown(r) for r in c['mappings']]
    if a == 'map':
        r = route(ask['source'], ask['target']); c['mappings'] = [o for o in c['mappings'] if o['source'] != r['source']] + [r]
        if len(c['mappings']) > 256: raise Bad('there are 256 mappings; remove one')
        save(c); return shown(r)
    if a == 'unmap':
        kept = [o for o in c['mappings'] if o['source'] != ask['source']]
        if len(kept) == len(c['mappings']): raise KeyError('Mapping not found: ' + ask['source'])
        c['mappings'] = kept; save(c); return None
    if a == 'excludes': return c['excludes']
    if a == 'exclude':
        if not re.match(r'[A-Za-z0-9.*:/_-]{1,255}$', ask['pattern']): raise Bad('pattern: %r is neither a domain nor a CIDR' % ask['pattern'])
        if ask['pattern'] not in c['excludes']: c['excludes'].append(ask['pattern'])
        if len(c['excludes']) > 256: raise Bad('there are 256 excludes; remove one')
        save(c); return None
    if a == 'include':
        if ask['pattern'] not in c['excludes']: raise KeyError('Exclude not found: ' + ask['pattern'])
        c['excludes'].remove(ask['pattern']); save(c); return None
    if a == 'upstream': u = c['upstream']; return {k: u[k] for k in ('addr', 'username', 'password')} if u else None
    if a == 'set_upstream':
        u = upstream(ask['server']); u['auth_cmd'] = ask.get('auth_cmd'); c['upstream'] = u; save(c); return {k: u[k] for k in ('addr', 'username', 'password')}
    if a == 'remove_upstream': c['upstream'] = None; save(c); return None
    if a == 'health':
        up = alive(PORT); need = bool(c['mappings'] or c['upstream']); bad = ['the proxy does not listen on port %d' % PORT] if need and not up else []
        return {'healthy': not bad, 'gost_alive': up or not need, 'nginx_alive': up or not need, 'config_consistent': not bad, 'inconsistencies': bad, 'listens': up}
    u = urllib.parse.urlsplit(ask['url'])
    if not u.hostname: raise Bad('url: %r has no host' % ask['url'])
    port = u.port or (443 if u.scheme == 'https' else 80); m = mapping_of(c, u.scheme, u.hostname, port, u.path or '/')
    out = {'url': ask['url'], 'matched_mapping': shown(m) if m else None, 'resolved_target': None, 'target_reachable': False, 'route': 'direct'}
    if m: out.update(resolved_target='127.0.0.1:%d' % m['internal_port'], target_reachable=alive(m['internal_port']), route='mapping')
    elif excluded(c, u.hostname): out.update(resolved_target='%s:%d' % (u.hostname, port), route='exclude')
    elif c['upstream']: out.update(resolved_target=c['upstream']['addr'], route='upstream')
    else: out.update(resolved_target='%s:%d' % (u.hostname, port))
    if not m:
        h, _, p = out['resolved_target'].rpartition(':')
        try: socket.create_connection((h.strip('[]'), int(p)), 3).close(); out['target_reachable'] = True
        except OSError: pass
    return out
def credentials(u):
    if u.get('auth_cmd'):
        try: text = subprocess.run(['bash', '-c', u['auth_cmd']], capture_output=True, timeout=10).stdout.decode().strip()
        except Exception: text = ''
        if ':' in text: return text
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
            if not host: raise ValueError('not an absolute URL')
        m = mapping_of(c, scheme, host, port, path); up = c['upstream'] if not m and not excluded(c, host) else None
        if m: at = ('127.0.0.1', m['internal_port'])
        elif up: h, _, p = up['addr'].rpartition(':'); at = (h.strip('[]'), int(p))
        else: at = (host.strip('[]'), port)
        br, bw = await asyncio.wait_for(asyncio.open_connection(*at), 15)
        rest = re.sub(rb'(?im)^proxy-(connection|authorization):.*\r\n', b'', rest)
        if up:
            auth = credentials(up)
            extra = b'Proxy-Authorization: Basic ' + base64.b64encode(auth.encode()) + b'\r\n' if auth else b''
            bw.write(line + b'\r\n' + extra + rest)
        elif method == 'CONNECT': w.write(b'HTTP/1.1 200 Connection established\r\n\r\n')
        else:
            rest = re.sub(rb'(?im)^connection:.*\r\n', b'', rest)
            bw.write(('%s %s %s\r\nConnection: close\r\n' % (method, path + ('?' + u.query if u.query else ''), version)).encode('latin-1') + rest)
        await asyncio.gather(copy(r, bw), copy(br, w)); bw.close()
    except Exception as e:
        try: w.write(b'HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n' + str(e).encode() + b'\n'); await w.drain()
        except Exception: pass
    finally: w.close()
async def main():
    async with await asyncio.start_server(serve_one, '127.0.0.1', PORT) as s: await s.serve_forever()
if sys.argv[1:] == ['serve']: asyncio.run(main())
else:
    try:
        ask = json.load(sys.stdin); r = manage(ask); c = load()
        start = bool(c['mappings'] or c['upstream']) and not alive(PORT)
        if start:
            with open(HOME + '/proxy.py', 'w') as f: f.write(ask['script'])
        json.dump({'result': r, 'start': start}, sys.stdout)
    except KeyError as e: json.dump({'missing': e.args[0]}, sys.stdout)
    except Bad as e: json.dump({'error': str(e)}, sys.stdout)
    except Exception as e: json.dump({'error': '%s: %s' % (type(e).__name__, e)}, sys.stdout)
