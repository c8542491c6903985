# Turns a document into Markdown, inside a box. Reads {"uri": ...} from stdin, prints {"kind", "markdown"}.
# Only the standard library and, for PDF, pdftotext. Embedded by convert.c.
import sys, io, re, json, datetime, zipfile, base64, csv, subprocess, urllib.parse, urllib.request, os, html.parser, xml.etree.ElementTree as ET
opts = json.load(sys.stdin)
uri = opts['uri']
LIMIT = 64 << 20
class Bad(Exception): pass
# Bytes of names that are no UTF-8: as base/path.h writes them, and as Python does.
def named(t): return re.sub('[\uef80-\uefff]', lambda m: chr(ord(m.group()) - 0x1300), t)
def told(t): return re.sub('[\uef80-\uefff\udc80-\udcff]', lambda m: ''.join(chr(0xef00 + b) for b in m.group().encode('utf-8', 'surrogateescape')), t)
def load_data(uri):
    head, comma, body = uri[5:].partition(','); raw = urllib.parse.unquote_to_bytes(body)
    if not comma: raise Bad('uri: a data URI has a comma before its data')
    if head.endswith(';base64'):
        raw = re.sub(rb'\s', b'', raw).translate(bytes.maketrans(b'-_', b'+/'))
        try: raw = base64.b64decode(raw + b'=' * (-len(raw) % 4), validate=True)
        except ValueError: raise Bad('uri: its data is not base64')
    m = re.search(r';charset=([^;]+)', head, re.I)
    return raw, '', head.split(';')[0].lower(), m.group(1) if m else None
def load(uri):
    """What is there, its name, its type and its character set; the last two if somebody said so."""
    if not uri: raise Bad('uri: is empty')
    if uri.startswith('data:'): return load_data(uri)
    if re.match('https?://', uri):
        try:
            with urllib.request.urlopen(urllib.request.Request(uri, headers={'User-Agent': 'Mozilla/5.0 (compatible; convert_to_markdown)'}), timeout=30) as r:
                return r.read(LIMIT + 1), urllib.parse.urlparse(r.geturl()).path, r.headers.get_content_type(), r.headers.get_content_charset()
        except Exception as e: raise Bad('fetch %s: %s' % (uri, e))
    path = urllib.parse.unquote(urllib.parse.urlparse(uri).path, errors='surrogateescape') if uri.startswith('file:') else uri
    if '://' in path: raise Bad('uri: only http, https, file and data are known')
    path = os.path.join(opts['workspace'], named(path))
    if os.path.exists(path) and not os.path.isfile(path): raise Bad('uri: %s is %s' % (told(path), 'a directory' if os.path.isdir(path) else 'no regular file'))
    with open(path, 'rb') as f: return f.read(LIMIT + 1), told(path), '', None
def text_of(b):
    """As its mark, the sender or the page itself says; else UTF-8, else what Windows wrote."""
    meta = re.search(rb'<meta[^>]{0,200}charset\s*=\s*["\']?\s*([\w.:-]+)', b[:4096], re.I) if kind == 'html' else None
    for c in ('utf-16' if b[:2] in (b'\xff\xfe', b'\xfe\xff') else None, charset, meta.group(1).decode() if meta else None, 'utf-8-sig', 'cp1252'):
        try:
            if c: return b.decode('gb18030' if c.lower() in ('gbk', 'gb2312') else c)
        except (UnicodeError, LookupError): pass
    return b.decode('latin-1')
def table(rows):
    rows = [[re.sub(r'\r\n|[\r\n]', ' ', str(c if c is not None else '').replace('|', '\\|')) for c in r] for r in rows]
    if not rows: return ''
    n = max(map(len, rows)); rows = [r + [''] * (n - len(r)) for r in rows]
    return '\n'.join('| ' + ' | '.join(r) + ' |' for r in rows[:1] + [['---'] * n] + rows[1:]) + '\n'
# Blocks (pre, li, blockquote, table) are kept apart, each as one line of the text around it, until all of it is there: so
# white space can be folded around them, and their lines can be indented or quoted.
SKIP = ('script', 'style', 'noscript', 'template', 'svg')
BLOCKS = ('p', 'div', 'section', 'article', 'header', 'footer', 'main', 'figure', 'figcaption', 'nav', 'aside', 'form', 'dl', 'dt', 'dd')
BOLD, ITALIC = ('\x0e', '\x0f', '**'), ('\x10', '\x11', '*')
def emphasis(t, marks):
    """Marks go round words, not round blanks, and not round more than a paragraph."""
    o, c, mark = marks
    def one(m):
        b = m.group(1); k = b.strip()
        return b if not k or '\0' in b or '\n\n' in b else b.replace(k, mark + k + mark, 1)
    return re.sub('[%s%s]' % (o, c), '', re.sub('%s([^%s%s]*)%s' % (o, o, c, c), one, t))
class Html(html.parser.HTMLParser):
    def __init__(s):
        super().__init__(); s.frames = [['root', [], '', 0]]; s.kept = []; s.skip = 0; s.pre = 0; s.links = []; s.rows = []; s.in_title = 0
    def put(s, t): s.frames[-1][1].append(t)
    def keep(s, lines): s.kept.append(lines); s.put('\n\0%d\0\n' % (len(s.kept) - 1))
    def lines(s, parts, folded=True):
        t = ''.join(parts)
        if folded:
            t = re.sub(r'[ \t]*\n[ \t]*', '\n', re.sub(r'[ \t]+', ' ', t))
            t = re.sub(r'\n{3,}', '\n\n', re.sub(' {2,}', ' ', emphasis(emphasis(t, ITALIC), BOLD)))
        out = []
        for l in t.strip('\n ' if folded else '\n').split('\n'):
            m = re.fullmatch('\0(\\d+)\0', l) if folded else None
            out += s.kept[int(m.group(1))] if m else [l]
        return out
    def inside(s, *kinds):
        """The innermost open frame of these kinds, unless a table's cell or the page's end lies between."""
        for i in range(len(s.frames) - 1, 0, -1):
            if s.frames[i][0] in kinds: return i
            if s.frames[i][0] == 'td': return 0
        return 0
    def close_to(s, i):
        while len(s.frames) > i > 0: s.shut()
    def shut(s):
        kind, parts, more, _ = s.frames.pop()
        if kind == 'pre':
            lines = s.lines(parts, False); fence = '```'
            while any(fence in l for l in lines): fence += '`'
            s.put('\n'); s.keep([fence + more] + lines + [fence]); s.put('\n')
        elif kind == 'td':
            if s.rows: s.rows[-1][-1].append(' '.join(' '.join(s.lines(parts)).split()))
        elif kind == 'li':
            lines = s.lines(parts)
            s.keep([more + lines[0]] + [' ' * len(more) + l if l else '' for l in lines[1:]])
        elif kind in ('ul', 'ol'):
            gap = '' if s.frames[-1][0] == 'li' else '\n'
            s.put(gap); s.keep(s.lines([re.sub('\\s*\n\\s*', '\n', ''.join(parts))])); s.put(gap)
        elif kind == 'blockquote':
            s.put('\n\n'); s.keep([('> ' + l).rstrip() for l in s.lines(parts)]); s.put('\n\n')
    def handle_starttag(s, t, a):
        a = dict(a)
        if t in SKIP: s.skip += 1
        elif t == 'title': s.in_title += 1
        elif s.pre and t == 'code':
            m = re.search(r'(?:^|\s)(?:language|lang)-([\w+#-]+)', a.get('class') or '')
            if m: s.frames[s.inside('pre') or -1][2] = m.group(1)
        elif s.pre and t != 'br': pass
        elif re.match('h[1-6]$', t): s.put('\n\n' + '#' * int(t[1]) + ' ')
        elif t in BLOCKS: s.put('\n\n')
        elif t == 'br': s.put('\n')
        elif t == 'hr': s.put('\n\n---\n\n')
        elif t in ('ul', 'ol'): s.frames.append([t, [], '', 0])
        elif t == 'li':
            i = s.inside('ul', 'ol', 'li')
            if i and s.frames[i][0] == 'li': s.close_to(i); i = s.inside('ul', 'ol')
            n = 0
            if i: s.frames[i][3] = n = s.frames[i][3] + 1
            s.frames.append(['li', [], '%d. ' % n if i and s.frames[i][0] == 'ol' else '- ', 0])
        elif t in ('b', 'strong'): s.put(BOLD[0])
        elif t in ('i', 'em'): s.put(ITALIC[0])
        elif t in ('code', 'kbd', 'samp'): s.put('`')
        elif t == 'pre': s.pre += 1; s.frames.append(['pre', [], '', 0])
        elif t == 'blockquote': s.frames.append(['blockquote', [], '', 0])
        elif t == 'a': s.links.append(a.get('href')); s.put('[' if a.get('href') else '')
        elif t == 'img': s.put('![%s](%s)' % (a.get('alt') or '', (a.get('src') or '').strip().replace(' ', '%20')))
        elif t == 'table': s.rows.append([])
        elif t in ('tr', 'td', 'th') and s.rows:
            if any(f[0] == 'td' for f in s.frames) and len(s.rows) == sum(f[0] == 'td' for f in s.frames): s.close_to(max(i for i, f in enumerate(s.frames) if f[0] == 'td'))
            if t == 'tr' or not s.rows[-1]: s.rows[-1].append([])
            if t != 'tr': s.frames.append(['td', [], '', 0])
    def handle_endtag(s, t):
        if t in SKIP: s.skip = max(0, s.skip - 1)
        elif t == 'title': s.in_title = 0
        elif t == 'pre' and s.pre:
            s.pre -= 1; s.close_to(s.inside('pre'))
        elif s.pre: pass
        elif re.match('h[1-6]$', t) or t in BLOCKS: s.put('\n\n')
        elif t in ('ul', 'ol', 'li', 'blockquote'): s.close_to(s.inside(t))
        elif t in ('b', 'strong'): s.put(BOLD[1])
        elif t in ('i', 'em'): s.put(ITALIC[1])
        elif t in ('code', 'kbd', 'samp'): s.put('`')
        elif t == 'a' and s.links:
            h = s.links.pop(); s.put('](%s)' % h.strip().replace(' ', '%20') if h else '')
        elif t in ('td', 'th'): s.close_to(max([i for i, f in enumerate(s.frames) if f[0] == 'td'] or [0]))
        elif t == 'table' and s.rows:
            if sum(f[0] == 'td' for f in s.frames) == len(s.rows): s.close_to(max(i for i, f in enumerate(s.frames) if f[0] == 'td'))
            r = [x for x in s.rows.pop() if x]
            if s.rows: s.put(' ' + ' '.join(c for x in r for c in x) + ' ') # a table in a cell has no Markdown
            else: s.put('\n'); s.keep(table(r).rstrip('\n').split('\n')); s.put('\n')
    def handle_data(s, d):
        d = re.sub('[\0\x0e-\x11]', '', d) # ours
        if not s.skip and not s.in_title: s.put(d if s.pre else re.sub(r'\s+', ' ', d))
    def text(s):
        while s.rows: s.handle_endtag('table')
        s.close_to(1)
        return '\n'.join(s.lines(s.frames[0][1])).strip('\n') + '\n'
def from_html(b):
    p = Html(); p.feed(text_of(b)); p.close()
    return p.text()
def local(e): return e.tag.rsplit('}', 1)[-1]
def attr(e, n): return next((v for k, v in e.attrib.items() if k.rsplit('}', 1)[-1] == n), '')
def runs(e): return ''.join((x.text or '') if local(x) == 't' else '\t' if local(x) == 'tab' else '\n' if local(x) == 'br' else '' for x in e.iter())
def open_zip(b):
    z = zipfile.ZipFile(io.BytesIO(b))
    if sum(i.file_size for i in z.infolist()) > 512 << 20: raise Bad('the archive unpacks to more than 512 MiB')
    return z
def part(z, name): return ET.fromstring(z.read(name)) if name in z.namelist() else ET.Element('none')
def child(e, *path):
    for n in path: e = next((x for x in e if local(x) == n), None) if e is not None else None
    return e
def targets(z, name):
    """What a part refers to, by id; paths from the archive's root."""
    d, f = os.path.split(name); out = {}
    for e in part(z, '%s/_rels/%s.rels' % (d, f)):
        t = attr(e, 'Target'); inside = attr(e, 'TargetMode') != 'External'
        out[attr(e, 'Id')] = (attr(e, 'Type').rsplit('/', 1)[-1], os.path.normpath(os.path.join('/' + d, t)).lstrip('/') if inside else t)
    return out
def is_on(props, name):
    e = child(props, name) if props is not None else None
    return e is not None and attr(e, 'val') not in ('0', 'false', 'none')
def styled(e, links):
    """The text of a paragraph; what is bold, italic or a link is marked."""
    spans = []
    def walk(e, href):
        for x in e:
            if local(x) == 'r':
                p = child(x, 'rPr'); key = (is_on(p, 'b'), is_on(p, 'i'), href)
                if spans and spans[-1][0] == key: spans[-1][1] += runs(x)
                else: spans.append([key, runs(x)])
            elif local(x) == 'hyperlink': walk(x, links.get(attr(x, 'id'), ('', ''))[1])
            elif local(x) in ('ins', 'smartTag', 'sdt', 'sdtContent', 'fldSimple'): walk(x, href)
    walk(e, ''); out = ''
    for (bold, italic, href), t in spans:
        body = t.strip()
        if body:
            mark = '**' * bold + '*' * italic
            body = mark + body + mark[::-1]
            t = t.replace(t.strip(), '[%s](%s)' % (body, href) if href else body, 1)
        out += t
    return out.strip()
def numbering(z):
    """(list, level) -> whether its items are counted; style -> list."""
    n = part(z, 'word/numbering.xml'); kinds = {}; counted = {}
    for a in n:
        if local(a) == 'abstractNum': kinds[attr(a, 'abstractNumId')] = {attr(l, 'ilvl'): attr(child(l, 'numFmt'), 'val') for l in a if local(l) == 'lvl' and child(l, 'numFmt') is not None}
    for a in n:
        if local(a) == 'num' and child(a, 'abstractNumId') is not None: counted[attr(a, 'numId')] = kinds.get(attr(child(a, 'abstractNumId'), 'val'), {})
    styles = {attr(s, 'styleId'): child(s, 'pPr', 'numPr') for s in part(z, 'word/styles.xml') if local(s) == 'style'}
    return counted, {k: v for k, v in styles.items() if v is not None}
def heading_of(z):
    """Style -> level of heading. Its id may be in any language; its name, or that of the style it is made from, is not."""
    names, bases = {}, {}
    for s in part(z, 'word/styles.xml'):
        if local(s) == 'style': names[attr(s, 'styleId')] = attr(child(s, 'name'), 'val') if child(s, 'name') is not None else ''; bases[attr(s, 'styleId')] = attr(child(s, 'basedOn'), 'val') if child(s, 'basedOn') is not None else ''
    def level(style):
        for _ in range(8):
            name = names.get(style) or style; m = re.match(r'(?i)heading\s*(\d)', name)
            if m or name.lower() == 'title': return max(int(m.group(1)), 1) if m else 1
            style = bases.get(style)
            if not style: return 0
        return 0
    return level
def from_docx(b):
    z = open_zip(b); out = []; links = targets(z, 'word/document.xml'); counted, styles = numbering(z); level_of = heading_of(z); counts = {}; listed = False
    def add(t, item=False):
        nonlocal listed
        if t: out.append(('\n' if item and listed else '\n\n' if out else '') + t); listed = item
    def put(e):
        if local(e) in ('sdt', 'sdtContent', 'ins'):
            for x in e: put(x)
        elif local(e) == 'tbl':
            add(table([[' '.join(runs(p) for p in c.iter() if local(p) == 'p') for c in r if local(c) == 'tc'] for r in e if local(r) == 'tr']))
        if local(e) != 'p': return
        style = attr(child(e, 'pPr', 'pStyle'), 'val') if child(e, 'pPr', 'pStyle') is not None else ''
        if style and level_of(style):
            t = ' '.join(runs(e).split())
            return add('#' * min(level_of(style), 6) + ' ' + t if t else '')
        num = child(e, 'pPr', 'numPr'); num = styles.get(style) if num is None else num
        t = styled(e, links)
        if not t or (num is None and not style.lower().startswith('list')): return add(t)
        value = lambda n: attr(child(num, n), 'val') if num is not None and child(num, n) is not None else ''
        key = value('numId'); level = value('ilvl') or '0'
        if key == '0': return add(t)
        if counted.get(key, {}).get(level, 'bullet') in ('bullet', 'none'): mark = '- '
        else:
            for k in [k for k in counts if k[0] == key and int(k[1]) > int(level)]: del counts[k]
            counts[key, level] = counts.get((key, level), 0) + 1; mark = '%d. ' % counts[key, level]
        add('    ' * int(level) + mark + t.replace('\n', ' '), True)
    for e in ET.fromstring(z.read('word/document.xml')).find('.//{*}body'): put(e)
    return ''.join(out) + '\n'
def span(name, n):
    r = opts.get(name) or [1, n]
    if len(r) != 2 or r[0] < 1: raise Bad('%s: expected [first, last]' % name)
    return r[0] - 1, n if r[1] == -1 else r[1]
def column(ref):
    n = 0
    for c in re.match('[A-Z]*', ref).group(0): n = n * 26 + ord(c) - 64
    return n
DATES = set(range(14, 23)) | set(range(27, 37)) | set(range(45, 48)) | set(range(50, 59))
def date_styles(z):
    """Which of the cells' styles show a number as a date."""
    root = part(z, 'xl/styles.xml'); own = {attr(e, 'numFmtId'): attr(e, 'formatCode') for e in root.iter() if local(e) == 'numFmt'}
    def is_date(x):
        f = attr(x, 'numFmtId') or '0'
        return bool(re.search('[ymdhs]', re.sub(r'"[^"]*"|\\.|\[(?!h|m|s)[^\]]*\]|General', '', own[f]), re.I)) if f in own else int(f) in DATES
    xfs = child(root, 'cellXfs')
    return [is_date(x) for x in xfs] if xfs is not None else []
def date_of(v, since):
    t = since + datetime.timedelta(seconds=round(float(v) * 86400))
    if 0 <= float(v) < 1: return t.strftime('%H:%M:%S')
    return t.strftime('%Y-%m-%d' if t.time() == datetime.time() else '%Y-%m-%d %H:%M:%S')
def cell_of(c, shared, dates, since):
    v = next((x.text for x in c if local(x) == 'v'), None); kind = c.get('t')
    if kind == 'inlineStr': return runs(c)
    if v is None:
        f = child(c, 'f') # nobody has counted it yet
        return '=' + f.text if f is not None and f.text else ''
    if kind == 's': return shared[int(v)]
    if kind == 'b': return 'TRUE' if v == '1' else 'FALSE'
    try: return date_of(v, since) if kind in (None, 'n') and dates[int(c.get('s', '0'))] else v
    except (IndexError, ValueError, OverflowError): return v
def from_xlsx(b):
    z = open_zip(b); book = ET.fromstring(z.read('xl/workbook.xml')); rels = targets(z, 'xl/workbook.xml'); dates = date_styles(z)
    shared = [''.join(runs(x) if local(x) == 'r' else x.text or '' for x in e if local(x) in ('t', 'r')) for e in part(z, 'xl/sharedStrings.xml')]
    since = datetime.datetime(1899, 12, 30)
    if any(local(e) == 'workbookPr' and attr(e, 'date1904') in ('1', 'true') for e in book): since = datetime.datetime(1904, 1, 1)
    out = []; want = opts.get('sheet_name'); found = []
    for s in book.iter():
        if local(s) != 'sheet': continue
        name = attr(s, 'name'); found.append(name)
        if want and name != want: continue
        rows = []
        for r in ET.fromstring(z.read(rels[attr(s, 'id')][1])).iter():
            if local(r) != 'row': continue
            row = []
            for c in r:
                if local(c) != 'c': continue
                k = column(c.get('r', ''))
                if k > 16384: raise Bad('a cell lies beyond the last column')
                while k and len(row) < k - 1: row.append('')
                row.append(cell_of(c, shared, dates, since))
            rows.append(row)
        while rows and not any(rows[-1]): rows.pop()
        a, e = span('row_range', len(rows))
        out.append('## %s\n\n%s' % (name, table(rows[a:e])))
    if want and not out: raise Bad('sheet_name: no sheet %r; there are: %s' % (want, ', '.join(found)))
    return '\n'.join(out)
def shapes(e):
    """Texts and tables of a slide in their order, each with what it is a place for; a table's cells are in the table."""
    for x in e:
        if local(x) == 'tbl': yield 'table', [[' '.join(runs(c).split()) for c in r if local(c) == 'tc'] for r in x if local(r) == 'tr']
        elif local(x) == 'sp':
            ph = next((attr(p, 'type') or 'body' for p in x.iter() if local(p) == 'ph'), '')
            yield ph, [runs(p).strip() for t in x if local(t) == 'txBody' for p in t if local(p) == 'p']
        elif local(x) == 'txBody': yield '', [runs(p).strip() for p in x if local(p) == 'p']
        else: yield from shapes(x)
def from_pptx(b):
    z = open_zip(b); names = z.namelist(); rels = targets(z, 'ppt/presentation.xml')
    slides = [rels[attr(e, 'id')][1] for e in part(z, 'ppt/presentation.xml').iter() if local(e) == 'sldId' and rels.get(attr(e, 'id'), ('', ''))[1] in names]
    slides = slides or sorted((n for n in names if re.match(r'ppt/slides/slide\d+\.xml$', n)), key=lambda n: int(re.findall(r'\d+', n)[-1]))
    a, e = span('slide_range', len(slides)); out = []
    for i, n in list(enumerate(slides, 1))[a:e]:
        out.append('<!-- Slide number: %d -->' % i); found = list(shapes(part(z, n)))
        titled = any(k in ('title', 'ctrTitle') for k, _ in found)
        for kind, what in found:
            if kind == 'table': out.append(table(what)); continue
            for t in filter(None, what):
                title = kind in ('title', 'ctrTitle') or not titled
                out.append(('# ' if title else '') + t); titled = True
        for kind, to in targets(z, n).values():
            notes = [t for k, what in shapes(part(z, to)) if k == 'body' for t in what if t] if kind == 'notesSlide' else []
            if notes: out.append('### Notes:\n\n' + '\n\n'.join(notes))
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
    t = text_of(b); csv.field_size_limit(LIMIT); head = t[:65536]; head = head[:head.rfind('\n') + 1] or head
    def alike(d):
        """How many rows have as many columns as the first, if that has more than one."""
        rows = [len(r) for r in csv.reader(io.StringIO(head), delimiter=d) if r]
        return sum(n == rows[0] for n in rows) if rows and rows[0] > 1 else 0
    return table([r for r in csv.reader(io.StringIO(t), delimiter=max(',;\t|', key=alike)) if r])
def from_notebook(b):
    book = json.loads(text_of(b)); out = []; text = lambda x: ''.join(x) if isinstance(x, list) else str(x or '')
    lang = book.get('metadata', {}).get('kernelspec', {}).get('language') or book.get('metadata', {}).get('language_info', {}).get('name') or ''
    for c in book['cells']:
        if c.get('cell_type') != 'code': out.append(text(c.get('source'))); continue
        for kind, t in [(lang, text(c.get('source')))] + [('', text(o.get('text') or o.get('data', {}).get('text/plain') or o.get('evalue'))) for o in c.get('outputs') or []]:
            if t.strip(): out.append('```%s\n%s\n```' % (kind, t.rstrip('\n')))
    return '\n\n'.join(out) + '\n'
def from_image(b, name):
    w = h = None; kind = 'image'
    if b[:8] == b'\x89PNG\r\n\x1a\n': kind, w, h = 'PNG', int.from_bytes(b[16:20], 'big'), int.from_bytes(b[20:24], 'big')
    elif b[:3] == b'GIF': kind, w, h = 'GIF', int.from_bytes(b[6:8], 'little'), int.from_bytes(b[8:10], 'little')
    elif b[:4] == b'RIFF':
        kind = 'WebP'; le = lambda i, n: int.from_bytes(b[i:i+n], 'little')
        if b[12:16] == b'VP8X': w, h = le(24, 3) + 1, le(27, 3) + 1
        elif b[12:16] == b'VP8L': w, h = (le(21, 4) & 0x3fff) + 1, (le(21, 4) >> 14 & 0x3fff) + 1
        elif b[12:16] == b'VP8 ': w, h = le(26, 2) & 0x3fff, le(28, 2) & 0x3fff
    elif b[:2] == b'BM': kind, w, h = 'BMP', int.from_bytes(b[18:22], 'little', signed=True), abs(int.from_bytes(b[22:26], 'little', signed=True))
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
        raise Bad('an archive, and no DOCX, XLSX or PPTX: unpack it and convert what is in it')
    if b[:4] == b'\xd0\xcf\x11\xe0': raise Bad('an old Office file (.doc, .xls, .ppt), or one with a password: save it as .docx, .xlsx or .pptx')
    if b[:8] == b'\x89PNG\r\n\x1a\n' or b[:3] == b'GIF' or b[:2] == b'\xff\xd8' or (b[:4] == b'RIFF' and b[8:12] == b'WEBP') or (b[:2] == b'BM' and e == '.bmp'): return 'image'
    if e in ('.csv', '.tsv') or mime == 'text/csv': return 'csv'
    if e in ('.html', '.htm', '.xhtml') or 'html' in mime or re.match(rb'\s*(<!doctype html|<html)', b[:200], re.I): return 'html'
    if b'\0' in b[:4096] and b[:2] not in (b'\xff\xfe', b'\xfe\xff'): raise Bad('a binary file of a kind that is not known; known are HTML, PDF, DOCX, XLSX, PPTX, CSV, notebooks, images and text')
    return 'notebook' if e == '.ipynb' else 'text'
try:
    b, name, mime, charset = load(uri)
    if len(b) > LIMIT: raise Bad('the document is larger than 64 MiB, the limit of convert_to_markdown')
    kind = kind_of(b, name, mime)
    f = {'html': from_html, 'pdf': from_pdf, 'docx': from_docx, 'xlsx': from_xlsx, 'pptx': from_pptx, 'csv': from_csv, 'notebook': from_notebook, 'text': text_of}
    r = from_image(b, name) if kind == 'image' else f[kind](b)
    json.dump({'kind': kind, 'markdown': r}, sys.stdout)
except FileNotFoundError as e: json.dump({'missing': 'No such file: %s' % told(e.filename)}, sys.stdout)
except Bad as e: json.dump({'error': str(e)}, sys.stdout)
except Exception as e: json.dump({'error': 'not converted: %s: %s' % (type(e).__name__, e)}, sys.stdout)
