// Every operation through the Go SDK: `go run aio_sdk.go URL`, with `browser` those of the browser, too, with `forms` the rows of
// data/aio_forms.json. Requests are written as their JSON and read into the SDK's own types,
// answers come back through them; what counts as every operation is asked of those types: a method that nobody called is a failure.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	api "github.com/agent-infra/sandbox-sdk-go"
	"github.com/agent-infra/sandbox-sdk-go/client"
	"github.com/agent-infra/sandbox-sdk-go/core"
	"github.com/agent-infra/sandbox-sdk-go/option"
)

var (
	sandbox  *client.Client
	uncalled = map[string]bool{}
)

func die(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func same(what string, got, want any) {
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if !bytes.Equal(g, w) {
		die("%s: %s, not %s", what, g, w)
	}
}

func groups(each func(name string, group reflect.Value)) {
	all := reflect.ValueOf(sandbox).Elem()
	for i := 0; i < all.NumField(); i++ {
		if f := all.Type().Field(i); f.IsExported() && f.Name != "WithRawResponse" {
			each(f.Name, all.Field(i))
		}
	}
}

// argument makes what the method takes: a request from its JSON, anything else as it is.
func argument(given any, kind reflect.Type) reflect.Value {
	text, isText := given.(string)
	if !isText || kind.Kind() != reflect.Pointer {
		return reflect.ValueOf(given)
	}
	request := reflect.New(kind.Elem())
	if err := json.Unmarshal([]byte(text), request.Interface()); err != nil {
		die("%s: %v", text, err)
	}
	return request
}

func try(name string, given ...any) (any, error) {
	group, method, _ := strings.Cut(name, ".")
	delete(uncalled, name)
	call := reflect.ValueOf(sandbox).Elem().FieldByName(group).MethodByName(method)
	in := []reflect.Value{reflect.ValueOf(context.Background())}
	for i, g := range given {
		in = append(in, argument(g, call.Type().In(i+1)))
	}
	out := call.Call(in)
	if err, _ := out[1].Interface().(error); err != nil {
		return nil, err
	}
	if stream, ok := out[0].Interface().(io.Reader); ok {
		all, err := io.ReadAll(stream)
		return string(all), err
	}
	text, err := json.Marshal(out[0].Interface())
	var answer any
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer, err
}

// do calls, and takes a value out of the answer: do("Shell.ExecCommand", `{...}`)("data", "output").
func do(name string, given ...any) func(path ...any) any {
	answer, err := try(name, given...)
	if err != nil {
		die("%s %v: %v", name, given, err)
	}
	return func(path ...any) any {
		at := answer
		for _, p := range path {
			switch p := p.(type) {
			case string:
				m, _ := at.(map[string]any)
				at = m[p]
			case int:
				l, _ := at.([]any)
				if p >= len(l) {
					die("%s: no [%d] in %v", name, p, answer)
				}
				at = l[p]
			}
		}
		return at
	}
}

func fails(status int, name string, given ...any) {
	answer, err := try(name, given...)
	var failed *core.APIError
	if err == nil || !errors.As(err, &failed) || failed.StatusCode != status {
		die("%s %v: %v, %v; not status %d", name, given, answer, err, status)
	}
}

func contains(what string, all any, part string) {
	text, _ := json.Marshal(all)
	if !bytes.Contains(text, []byte(part)) {
		die("%s: no '%s' in %.300s", what, part, text)
	}
}

func shell() {
	same("output", do("Shell.ExecCommand", `{"command":"echo 'Hello World'"}`)("data", "output"), "Hello World")
	s := do("Shell.CreateSession", `{"id":"go","exec_dir":"/tmp","no_change_timeout":120}`)("data", "session_id")
	same("session", s, "go")
	do("Shell.ExecCommand", `{"id":"go","command":"cd /usr","timeout":10}`)
	same("cwd", do("Shell.ExecCommand", `{"id":"go","command":"pwd"}`)("data", "output"), "/usr")
	contains("sessions", do("Shell.ListSessions")("data", "sessions"), `"go"`)
	same("status", do("Shell.ExecCommand", `{"id":"go","command":"read x; echo got $x","async_mode":true}`)("data", "status"), "running")
	do("Shell.WriteToProcess", `{"id":"go","input":"42","press_enter":true}`)
	same("status", do("Shell.WaitForProcess", `{"id":"go","seconds":10}`)("data", "status"), "completed")
	contains("view", do("Shell.View", `{"id":"go"}`)("data", "output"), "got 42")
	do("Shell.ExecCommand", `{"id":"go","command":"sleep 60","async_mode":true}`)
	same("killed", do("Shell.KillProcess", `{"id":"go"}`)("data", "status"), "terminated")
	do("Shell.UpdateSession", `{"id":"go","no_change_timeout":5}`)
	contains("url", do("Shell.GetTerminalUrl")("data"), "/terminal?session_id=")
	fails(404, "Shell.View", `{"id":"none"}`)
	do("Shell.CleanupSession", "go")
	do("Shell.CleanupAllSessions")
}

func files() {
	const f = "/home/gem/notes.txt"
	same("written", do("File.WriteFile", `{"file":"`+f+`","content":"one\ntwo\n","encoding":"utf-8"}`)("data", "bytes_written"), 8)
	do("File.WriteFile", `{"file":"`+f+`","content":"three\n","append":true}`)
	same("lines", do("File.ReadFile", `{"file":"`+f+`","start_line":1,"end_line":2}`)("data", "content"), "two\n")
	same("replaced", do("File.ReplaceInFile", `{"file":"`+f+`","old_str":"two","new_str":"2"}`)("data", "replaced_count"), 1)
	same("found", do("File.SearchInFile", `{"file":"`+f+`","regex":"^t"}`)("data", "line_numbers"), []int{2})
	same("files", do("File.FindFiles", `{"path":"/home/gem","glob":"**/*.txt"}`)("data", "files"), []string{f})
	contains("list", do("File.ListPath", `{"path":"/home/gem","include_size":true}`)("data", "files"), f)
	do("File.StrReplaceEditor", `{"command":"create","path":"/home/gem/hello.py","file_text":"Hello\n"}`)
	do("File.StrReplaceEditor", `{"command":"str_replace","path":"/home/gem/hello.py","old_str":"Hello","new_str":"Hi"}`)
	contains("view", do("File.StrReplaceEditor", `{"command":"view","path":"/home/gem/hello.py"}`)("data", "output"), "Hi")
	do("File.StrReplaceEditor", `{"command":"undo_edit","path":"/home/gem/hello.py"}`)
	same("undone", do("File.ReadFile", `{"file":"/home/gem/hello.py"}`)("data", "content"), "Hello\n")
	path := "/tmp/up.bin"
	up := &api.BodyUploadFile{File: strings.NewReader("\x00\x01\x02"), Path: &path}
	same("uploaded", do("File.UploadFile", up)("data", "file_size"), 3)
	same("downloaded", do("File.DownloadFile", &api.FileDownloadFileRequest{Path: "/tmp/up.bin"})(), "\x00\x01\x02")
	fails(404, "File.DownloadFile", &api.FileDownloadFileRequest{Path: "/none"})
	fails(422, "File.StrReplaceEditor", `{"command":"never","path":"/home/gem/hello.py"}`)
}

func code() {
	same("python", do("Code.ExecuteCode", `{"language":"python","code":"print(6 * 7)"}`)("data", "stdout"), "42\n")
	do("Code.GetInfo")
	contains("kernels", do("Jupyter.GetInfo")("data"), "python3")
	j := do("Jupyter.CreateSession", `{"kernel_name":"python3"}`)("data", "session_id").(string)
	do("Jupyter.ExecuteCode", `{"session_id":"`+j+`","code":"x = 20"}`)
	contains("sum", do("Jupyter.ExecuteCode", `{"session_id":"`+j+`","code":"x + 1","timeout":60}`)("data", "outputs"), "21")
	contains("sessions", do("Jupyter.ListSessions")("data", "sessions"), j)
	do("Jupyter.DeleteSession", j)
	fails(404, "Jupyter.DeleteSession", j)
	do("Jupyter.DeleteSessions")
	same("node", do("Nodejs.ExecuteCode", `{"code":"console.log(6 * 7)","timeout":30}`)("data", "stdout"), "42\n")
	contains("node", do("Nodejs.GetInfo")("data", "node_version"), "v")
}

func rest() {
	same("home", do("Sandbox.GetContext")("home_dir"), "/home/gem")
	contains("packages", do("Sandbox.GetPythonPackages")("data"), `"pip"`)
	do("Sandbox.GetNodejsPackages")
	same("markdown", do("Util.ConvertToMarkdown", `{"uri":"data:text/html,<h1>x</h1>"}`)("data"), "# x\n")

	do("Shell.ExecCommand", `{"command":"mkdir -p ~/s && printf -- '---\\nname: s\\n---\\nhi\\n' > ~/s/SKILL.md && cd ~ && python3 -m zipfile -c s.zip s"}`)
	packed := do("File.DownloadFile", &api.FileDownloadFileRequest{Path: "/home/gem/s.zip"})().(string)
	same("registered", do("Skills.RegisterSkills", &api.BodyRegisterSkills{File: strings.NewReader(packed)})("data", "count"), 1)
	same("skill", do("Skills.ListMetadata", `{}`)("data", "skills", 0, "name"), "s")
	contains("content", do("Skills.GetContent", "s")("data", "content"), "hi")
	do("Skills.DeleteSkill", "s")
	fails(404, "Skills.GetContent", "s")
	do("Skills.ClearSkills")

	server := do("Mcp.ListMcpServers")("data", 0).(string)
	contains("tools", do("Mcp.ListMcpTools", server)("data", "tools"), "bash_run")
	contains("result", do("Mcp.ExecuteMcpTool", server, "bash_run", map[string]any{"command": "echo $((6*7))"})("data"), "42")
	fails(404, "Mcp.ListMcpTools", "none")
}

func browser() {
	contains("info", do("Browser.GetInfo")("data", "cdp_url"), "ws")
	do("Browser.SetConfig", `{"resolution":{"width":1280,"height":720}}`)
	contains("picture", do("Browser.Screenshot")(), "PNG")
	same("action", do("Browser.ExecuteAction", `{"action_type":"CLICK","x":600,"y":400}`)("action_performed"), "CLICK")
}

// set gives a field of a request its value, by the name that it has in the API.
func set(request reflect.Value, name string, given any) error {
	for i := 0; i < request.NumField(); i++ {
		f := request.Type().Field(i)
		if f.Tag.Get("url") != name && strings.Split(f.Tag.Get("json"), ",")[0] != name && strings.ToLower(f.Name) != name {
			continue
		}
		if file, ok := given.(map[string]any); ok && f.Type.Kind() == reflect.Interface {
			request.Field(i).Set(reflect.ValueOf(base64.NewDecoder(base64.StdEncoding, strings.NewReader(file["$file"].(string)))))
			return nil
		}
		text, _ := json.Marshal(given)
		return json.Unmarshal(text, request.Field(i).Addr().Interface())
	}
	return nil // newer than this SDK
}

// forms calls each operation with defaults only, with every parameter set, and wrong.
func forms(table string) {
	var rows [][]any
	text, err := os.ReadFile(table)
	if err == nil {
		err = json.Unmarshal(text, &rows)
	}
	if err != nil {
		die("%v", err)
	}
	kept, failed := map[string]any{}, false
	value := func(v any) any {
		if s, ok := v.(string); ok && strings.HasPrefix(s, "$") {
			return kept[s[1:]]
		}
		return v
	}
	for _, row := range rows {
		name := ""
		for _, part := range strings.FieldsFunc(row[1].(string), func(r rune) bool { return r == '_' }) {
			name += strings.ToUpper(part[:1]) + part[1:]
		}
		group, method, _ := strings.Cut(name, ".")
		method = strings.ToUpper(method[:1]) + method[1:]
		of := reflect.ValueOf(sandbox).Elem().FieldByName(group)
		if !of.IsValid() || !of.MethodByName(method).IsValid() {
			continue // newer than this SDK
		}
		var args []any
		for _, p := range row[2].([]any) {
			args = append(args, value(p))
		}
		kind := of.MethodByName(method).Type()
		if n := len(args) + 1; n < kind.NumIn()-1 {
			request := reflect.New(kind.In(n).Elem())
			for k, v := range row[3].(map[string]any) {
				if err := set(request.Elem(), k, value(v)); err != nil {
					die("%v %v: %v", row[1], row[3], err)
				}
			}
			args = append(args, request.Interface())
		}
		answer, err := try(group+"."+method, args...)
		var refused *core.APIError
		got := any(200.0)
		if errors.As(err, &refused) {
			got = float64(refused.StatusCode)
		} else if err != nil {
			got = err.Error()
		} else if body, _ := answer.(map[string]any); body["success"] == false {
			got = "failed"
		}
		if got != row[4] {
			failed = true
			fmt.Fprintf(os.Stderr, "%v %v %v: %v, not %v\n", row[0], row[1], row[3], got, row[4])
		}
		if len(row) > 5 {
			for key, place := range row[5].(map[string]any) {
				at := answer
				for _, part := range strings.Split(place.(string), ".") {
					m, _ := at.(map[string]any)
					at = m[part]
				}
				kept[key] = at
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}

func main() {
	sandbox = client.NewClient(option.WithBaseURL(os.Args[1]), option.WithMaxAttempts(1))
	groups(func(name string, group reflect.Value) {
		for i := 0; i < group.NumMethod(); i++ {
			uncalled[name+"."+group.Type().Method(i).Name] = true
		}
	})
	if len(os.Args) > 3 && os.Args[2] == "forms" {
		forms(os.Args[3])
		return
	}
	shell()
	files()
	code()
	rest()
	if len(os.Args) > 2 && os.Args[2] == "browser" {
		browser()
	} else {
		for name := range uncalled {
			if strings.HasPrefix(name, "Browser.") {
				delete(uncalled, name)
			}
		}
	}
	if len(uncalled) > 0 {
		die("not called: %v", uncalled)
	}
	fmt.Println("sdk: all operations answered")
}
