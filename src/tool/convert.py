# Turns a document into Markdown, inside a box. Reads {"uri": ...} from stdin, prints {"kind", "markdown"}.
# Only the standard library and, for PDF, pdftotext. Embedded by convert.c.
import sys, io, re, json, zipfile, base64, csv, subprocess, urllib.parse, urllib.request, os, html.parser, xml.etree.ElementTree as ET
opts = json.load(sys.stdin)
uri = opts['uri']
LIMIT = 64 << 20
class Bad(Exception): pass
def load(uri):
    if uri.startswith('data:'):
        head, _, body = uri[5:].partition(',')
        raw = urllib.parse.unquote_to_bytes(body)
        return (base64.b64decode(raw) if head.endswith(';base64') else raw), '', head.split(';')[0]
    if re.match('https?://', uri):
        try:
            with urllib.request.urlopen(uri, timeout=30) as r:
                return r.read(LIMIT + 1), urllib.parse.urlparse(uri).path, r.headers.get_content_type()
        except Exception as e: raise Bad('fetch %s: %s' % (uri, e))
    path = urllib.parse.unquote(urllib.parse.urlparse(uri).path) if uri.startswith('file:') else uri
    if '://' in path: raise Bad('uri: only http, https, file and data are known')
    path = os.path.join('/home/gem', path)
    if not os.path.isfile(path): raise FileNotFoundError(2, 'No such file or directory', path)
    with open(path, 'rb') as f: return f.read(LIMIT + 1), path, ''
def text_of(b):
    for c in ('utf-8-sig', 'utf-16') if b[:2] in (b'\xff\xfe', b'\xfe\xff') else ('utf-8-sig',):
        try: return b.decode(c)
        except UnicodeError: pass
    return b.decode('latin-1')
def table(rows):
    rows = [[str(c if c is not None else '').replace('|', '\\|').replace('\n', ' ') for c in r] for r in rows]
    if not rows: return ''
    n = max(map(len, rows)); rows = [r + [''] * (n - len(r)) for r in rows]
    return '\n'.join('| ' + ' | '.join(r) + ' |' for r in rows[:1] + [['---'] * n] + rows[1:]) + '\n'
class Html(html.parser.HTMLParser):
    def __init__(s):
        super().__init__(); s.out = []; s.skip = 0; s.pre = 0; s.links = []; s.lists = []; s.rows = None; s.cell = None; s.title = ''; s.in_title = 0
    def put(s, t): (s.cell if s.cell is not None else s.out).append(t)
    def close_cell(s):
        if s.cell is not None and s.rows: s.rows[-1].append(' '.join(''.join(s.cell).split()))
        s.cell = None
    def handle_starttag(s, t, a):
        a = dict(a)
        if t in ('script', 'style', 'noscript', 'template', 'svg'): s.skip += 1
        elif t == 'title': s.in_title += 1
        elif re.match('h[1-6]$', t): s.put('\n\n' + '#' * int(t[1]) + ' ')
        elif t in ('p', 'div', 'section', 'article', 'header', 'footer', 'main', 'figure'): s.put('\n\n')
        elif t == 'br': s.put('\n')
        elif t == 'hr': s.put('\n\n---\n\n')
        elif t in ('ul', 'ol'): s.lists.append([t, 0]); s.put('\n')
        elif t == 'li':
            l = s.lists[-1] if s.lists else ['ul', 0]; l[1] += 1
            s.put('\n' + '  ' * max(len(s.lists) - 1, 0) + ('%d. ' % l[1] if l[0] == 'ol' else '- '))
        elif t in ('b', 'strong'): s.put('**')
        elif t in ('i', 'em'): s.put('*')
        elif t == 'code' and not s.pre: s.put('`')
        elif t == 'pre': s.pre += 1; s.put('\n\n```\n')
        elif t == 'blockquote': s.put('\n\n> ')
        elif t == 'a': s.links.append(a.get('href')); s.put('[' if a.get('href') else '')
        elif t == 'img': s.put('![%s](%s)' % (a.get('alt', ''), a.get('src', '')))
        elif t == 'table': s.rows = []
        elif t in ('tr', 'td', 'th') and s.rows is not None:
            s.close_cell()
            if t == 'tr' or not s.rows: s.rows.append([])
            if t != 'tr': s.cell = []
    def handle_endtag(s, t):
        if t in ('script', 'style', 'noscript', 'template', 'svg'): s.skip = max(0, s.skip - 1)
        elif t == 'title': s.in_title = 0
        elif re.match('h[1-6]$', t) or t == 'p': s.put('\n\n')
        elif t in ('ul', 'ol') and s.lists: s.lists.pop(); s.put('\n')
        elif t in ('b', 'strong'): s.put('**')
        elif t in ('i', 'em'): s.put('*')
        elif t == 'code' and not s.pre: s.put('`')
        elif t == 'pre': s.pre = max(0, s.pre - 1); s.put('\n```\n\n')
        elif t == 'a' and s.links:
            h = s.links.pop(); s.put('](%s)' % h if h else '')
        elif t in ('td', 'th'): s.close_cell()
        elif t == 'table' and s.rows is not None:
            s.close_cell(); r, s.rows = [x for x in s.rows if x], None; s.put('\n\n' + table(r) + '\n')
    def handle_data(s, d):
        if s.skip: return
        if s.in_title: s.title += d; return
        s.put(d if s.pre else re.sub(r'\s+', ' ', d))
def from_html(b):
    p = Html(); p.feed(text_of(b)); p.close()
    t = re.sub(r'[ \t]+\n', '\n', ''.join(p.out)); t = re.sub(r'\n[ \t]+(?=\S)', lambda m: m.group(0) if '-' in t[m.end():m.end()+1] else '\n', t)
    return re.sub(r'\n{3,}', '\n\n', t).strip() + '\n'
def local(e): return e.tag.rsplit('}', 1)[-1]
def attr(e, n): return next((v for k, v in e.attrib.items() if k.rsplit('}', 1)[-1] == n), '')
def runs(e): return ''.join((x.text or '') if local(x) == 't' else '\t' if local(x) == 'tab' else '\n' if local(x) == 'br' else '' for x in e.iter())
def open_zip(b):
    z = zipfile.ZipFile(io.BytesIO(b))
    if sum(i.file_size for i in z.infolist()) > 512 << 20: raise Bad('the archive unpacks to more than 512 MiB')
    return z
def from_docx(b):
    z = open_zip(b); out = []
    for e in ET.fromstring(z.read('word/document.xml')).find('.//{*}body'):
        if local(e) == 'p':
            style = next((attr(x, 'val') for x in e.iter() if local(x) == 'pStyle'), ''); t = runs(e).strip()
            m = re.match(r'(?i)heading\s*(\d)', style)
            if m and t: t = '#' * int(m.group(1)) + ' ' + t
            elif style.lower() == 'title' and t: t = '# ' + t
            elif t and any(local(x) == 'numPr' for x in e.iter()) or (t and style.lower().startswith('list')): t = '- ' + t
            if t: out.append(t)
        elif local(e) == 'tbl':
            out.append(table([[' '.join(runs(p) for p in c.iter() if local(p) == 'p') for c in r if local(c) == 'tc'] for r in e if local(r) == 'tr']))
    return '\n\n'.join(out) + '\n'
def span(name, n):
    r = opts.get(name) or [1, n]
    if len(r) != 2 or r[0] < 1: raise Bad('%s: expected [first, last]' % name)
    return r[0] - 1, n if r[1] == -1 else r[1]
def column(ref):
    n = 0
    for c in re.match('[A-Z]*', ref).group(0): n = n * 26 + ord(c) - 64
    return n
def from_xlsx(b):
    z = open_zip(b); names = set(z.namelist())
    shared = [runs(e) for e in ET.fromstring(z.read('xl/sharedStrings.xml'))] if 'xl/sharedStrings.xml' in names else []
    rels = {attr(e, 'Id'): attr(e, 'Target') for e in ET.fromstring(z.read('xl/_rels/workbook.xml.rels'))}
    out = []; want = opts.get('sheet_name'); found = []
    for s in ET.fromstring(z.read('xl/workbook.xml')).iter():
        if local(s) != 'sheet': continue
        name = attr(s, 'name'); found.append(name)
        if want and name != want: continue
        target = rels[attr(s, 'id')].lstrip('/'); target = target if target.startswith('xl/') else 'xl/' + target
        rows = []
        for r in ET.fromstring(z.read(target)).iter():
            if local(r) != 'row': continue
            row = []
            for c in r:
                if local(c) != 'c': continue
                v = next((x.text for x in c if local(x) == 'v'), None)
                if c.get('t') == 's' and v is not None: v = shared[int(v)]
                elif c.get('t') == 'inlineStr': v = runs(c)
                k = column(c.get('r', ''))
                if k > 16384: raise Bad('a cell lies beyond the last column')
                while k and len(row) < k - 1: row.append('')
                row.append(v or '')
            rows.append(row)
        a, e = span('row_range', len(rows))
        out.append('## %s\n\n%s' % (name, table(rows[a:e])))
    if want and not out: raise Bad('sheet_name: no sheet %r; there are: %s' % (want, ', '.join(found)))
    return '\n'.join(out)
def from_pptx(b):
    z = open_zip(b)
    slides = sorted((n for n in z.namelist() if re.match(r'ppt/slides/slide\d+\.xml$', n)), key=lambda n: int(re.findall(r'\d+', n)[-1]))
    a, e = span('slide_range', len(slides)); out = []
    for i, n in list(enumerate(slides, 1))[a:e]:
        out.append('<!-- Slide number: %d -->' % i); first = True
        for x in ET.fromstring(z.read(n)).iter():
            if local(x) == 'txBody':
                for p in x:
                    if local(p) == 'p' and runs(p).strip(): out.append(('# ' if first else '') + runs(p).strip()); first = False
            elif local(x) == 'tbl': out.append(table([[runs(c) for c in r if local(c) == 'tc'] for r in x if local(r) == 'tr']))
    return '\n\n'.join(out) + '\n'
def from_pdf(b):
    cmd = ['pdftotext', '-layout', '-enc', 'UTF-8']
    if opts.get('page_range'):
        r = opts['page_range']
        if len(r) != 2 or r[0] < 1: raise Bad('page_range: expected [first, last]')
        cmd += ['-f', str(r[0])] + (['-l', str(r[1])] if r[1] != -1 else [])
    try: p = subprocess.run(cmd + ['-', '-'], input=b, capture_output=True, timeout=120)
    except FileNotFoundError: raise Bad('pdftotext (poppler-utils) is not installed in this image; PDF needs it')
    if p.returncode: raise Bad('pdftotext: ' + p.stderr.decode(errors='replace').strip())
    return p.stdout.decode(errors='replace').replace('\f', '\n\n')
def from_csv(b):
    t = text_of(b)
    try: d = csv.Sniffer().sniff(t[:4096], ',;\t|')
    except csv.Error: d = csv.excel
    return table(list(csv.reader(io.StringIO(t), d)))
def from_image(b, name):
    w = h = None; kind = 'image'
    if b[:8] == b'\x89PNG\r\n\x1a\n': kind, w, h = 'PNG', int.from_bytes(b[16:20], 'big'), int.from_bytes(b[20:24], 'big')
    elif b[:3] == b'GIF': kind, w, h = 'GIF', int.from_bytes(b[6:8], 'little'), int.from_bytes(b[8:10], 'little')
    elif b[:4] == b'RIFF': kind = 'WebP'
    elif b[:2] == b'\xff\xd8':
        kind = 'JPEG'; i = 2
        while i + 9 < len(b):
            if b[i] != 0xff: i += 1; continue
            if 0xc0 <= b[i+1] <= 0xcf and b[i+1] not in (0xc4, 0xc8, 0xcc):
                h, w = int.from_bytes(b[i+5:i+7], 'big'), int.from_bytes(b[i+7:i+9], 'big'); break
            i += 2 + int.from_bytes(b[i+2:i+4], 'big')
    out = ['![%s](%s)' % (os.path.basename(name) or kind, name or 'data'), '', '- Format: ' + kind, '- Bytes: %d' % len(b)]
    if w: out.append('- Size: %dx%d pixels' % (w, h))
    return '\n'.join(out) + '\n'
def kind_of(b, name, mime):
    e = os.path.splitext(name)[1].lower()
    if b[:4] == b'%PDF': return 'pdf'
    if b[:2] == b'PK':
        try: n = zipfile.ZipFile(io.BytesIO(b)).namelist()
        except Exception: raise Bad('a damaged archive')
        for k, f in (('docx', 'word/document.xml'), ('xlsx', 'xl/workbook.xml'), ('pptx', 'ppt/presentation.xml')):
            if f in n: return k
    if b[:8] == b'\x89PNG\r\n\x1a\n' or b[:3] == b'GIF' or b[:2] == b'\xff\xd8' or (b[:4] == b'RIFF' and b[8:12] == b'WEBP'): return 'image'
    if e in ('.csv', '.tsv') or mime == 'text/csv': return 'csv'
    if e in ('.html', '.htm', '.xhtml') or 'html' in mime or re.match(rb'\s*(<!doctype html|<html)', b[:200], re.I): return 'html'
    if b'\0' in b[:4096] and b[:2] not in (b'\xff\xfe', b'\xfe\xff'): raise Bad('a binary file of a kind that is not known')
    return 'text'
try:
    b, name, mime = load(uri)
    if len(b) > LIMIT: raise Bad('larger than 64 MiB')
    k = kind_of(b, name, mime)
    f = {'html': from_html, 'pdf': from_pdf, 'docx': from_docx, 'xlsx': from_xlsx, 'pptx': from_pptx, 'csv': from_csv, 'text': text_of}
    r = from_image(b, name) if k == 'image' else f[k](b)
    json.dump({'kind': k, 'markdown': r}, sys.stdout)
except FileNotFoundError as e: json.dump({'missing': 'No such file: %s' % e.filename}, sys.stdout)
except Bad as e: json.dump({'error': str(e)}, sys.stdout)
except Exception as e: json.dump({'error': 'not converted: %s: %s' % (type(e).__name__, e)}, sys.stdout)
