// A CodeLab client: it talks, reads and writes files in the folder where it runs, asks its user before it changes one
// if the server says so, and goes on after its connection broke.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

const (
	resultBytes = 120_000          // a larger result would have to be uploaded
	pingAfter   = 9 * time.Minute  // API Gateway closes a connection after ten minutes without traffic
	longPause   = 30 * time.Second // between two tries to connect
)

// Frame has the fields that this client reads of all frames.
type Frame struct {
	Type             string         `json:"type"`
	Seq              int64          `json:"seq"`
	LastSeq          int64          `json:"last_seq"`
	More             bool           `json:"more"`
	Content          string         `json:"content"`
	IsFinal          bool           `json:"is_final"`
	Status           string         `json:"status"`
	ErrorCode        string         `json:"error_code"`
	ClientMsgID      string         `json:"client_msg_id"`
	CallID           string         `json:"call_id"`
	ToolName         string         `json:"tool_name"`
	Arguments        map[string]any `json:"arguments"`
	RequiresApproval bool           `json:"requires_approval"`
	Execute          *bool          `json:"execute"`
	OpenCalls        []Frame        `json:"open_calls"`
}

// object is a frame that this client sends.
type object = map[string]any

// Client is one session.
type Client struct {
	folder  *os.Root // where calls are executed
	lines   chan string
	socket  *websocket.Conn
	lastSeq int64
	isLive  bool              // resumed has come on this connection
	isBusy  bool              // a turn is running
	calls   map[string]Frame  // the newest tool_call of each id
	answers map[string]object // by call_id the results, by "decision "+call_id the decisions: each is made once
	asking  []string          // the calls that wait for the user
	message object            // the last message, until the server has it
}

var errInput, errSession = errors.New("the input has ended"), errors.New("the server has ended the session")
var errThrottled, errGap = errors.New("API Gateway has refused a frame"), errors.New("frames are missing")

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: client ws://localhost:8000/ws/my_session")
		os.Exit(2)
	}
	folder, err := os.OpenRoot(".")
	if err != nil {
		panic(err)
	}
	client := Client{folder: folder, lines: make(chan string), calls: map[string]Frame{}, answers: map[string]object{}}
	go func() {
		for input := bufio.NewScanner(os.Stdin); input.Scan(); {
			client.lines <- input.Text()
		}
		close(client.lines)
	}()
	if err := client.run(os.Args[1]); err != errInput {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run connects again and again, until the user or the server ends the session.
func (c *Client) run(url string) error {
	header := http.Header{}
	if token := os.Getenv("CODELAB_TOKEN"); token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	dialer := websocket.Dialer{WriteBufferSize: 16 << 10} // a longer message goes in several frames of this size
	var last error
	for pause := time.Second; ; pause *= 2 {
		socket, response, err := dialer.Dial(url, header)
		seconds := 0 // that the server asks us to wait
		if err == nil {
			c.socket, c.isLive = socket, false
			err = c.converse()
			socket.Close()
			if err == errInput || err == errSession || websocket.IsCloseError(err, 1000, 1003) {
				return err
			} else if c.isLive && (err != errThrottled || last != errThrottled) {
				pause = time.Second
			}
		} else if response != nil {
			seconds, _ = strconv.Atoi(response.Header.Get("Retry-After"))
			if status := response.StatusCode; status == 400 || status == 401 || status == 403 {
				return fmt.Errorf("the address or the token is refused: %s", response.Status)
			}
		}
		pause, last = min(pause, longPause), err
		time.Sleep(time.Duration(seconds)*time.Second + 500*time.Millisecond + time.Duration(rand.Int63n(int64(pause))))
	}
}

// converse serves one connection, and says why it has ended.
func (c *Client) converse() error {
	frames, broken := make(chan Frame, 1000), make(chan error, 1)
	go func(socket *websocket.Conn) {
		for {
			var frame Frame
			if err := socket.ReadJSON(&frame); err != nil {
				broken <- err
				return
			}
			frames <- frame
		}
	}(c.socket)
	c.send(object{"type": "resume", "last_seq": c.lastSeq})
	for {
		select {
		case err := <-broken:
			return err
		case frame := <-frames:
			if err := c.take(frame); err != nil {
				return err
			}
		case line, isOpen := <-c.lines:
			if !isOpen {
				return errInput
			}
			c.typed(line)
		case <-time.After(pingAfter):
			c.send(object{"type": "ping"})
		}
	}
}

// take handles a frame. An error ends the connection.
func (c *Client) take(frame Frame) error {
	switch {
	case frame.Type == "":
		return errThrottled
	case frame.Seq > c.lastSeq+1:
		return errGap
	case frame.Seq > c.lastSeq:
		c.lastSeq = frame.Seq
	case frame.Seq > 0 && frame.Type != "tool_call":
		return nil // it has come before
	}
	if frame.ClientMsgID != "" && c.message["client_msg_id"] == frame.ClientMsgID {
		c.message = nil // the server has it, or has refused it
	}
	switch frame.Type {
	case "assistant_message":
		fmt.Print(frame.Content)
		if frame.IsFinal {
			fmt.Println()
		}
	case "agent_status":
		c.isBusy = frame.Status != "idle"
		c.prompt()
	case "error":
		fmt.Printf("%s: %s\n", frame.ErrorCode, frame.Content)
		if frame.ErrorCode == "SESSION_EXPIRED" {
			return errSession // this client has one token
		}
		if call := c.calls[frame.CallID]; call.RequiresApproval && frame.ErrorCode != "INVALID_CALL_ID" {
			delete(c.answers, "decision "+frame.CallID) // the decision is refused: the call still waits
			c.answer(call)
		}
		c.prompt()
	case "tool_call":
		c.calls[frame.CallID] = frame
		if c.isLive {
			c.answer(frame)
		}
	case "call_update": // it is settled, perhaps by another window
		c.stopAsking(frame.CallID)
	case "resync_required":
		c.lastSeq = frame.LastSeq
		c.send(object{"type": "resume", "last_seq": c.lastSeq})
	case "resumed":
		if frame.More || frame.LastSeq != c.lastSeq {
			return errGap
		}
		c.isLive, c.asking = true, nil
		if c.message != nil {
			c.send(c.message)
		}
		for _, open := range frame.OpenCalls {
			c.answer(c.calls[open.CallID])
		}
		c.prompt()
	}
	return nil
}

// answer executes a call, or asks the user about it. A call that comes again gets the same answer.
func (c *Client) answer(call Frame) {
	if call.CallID == "" || call.Execute != nil && !*call.Execute {
		return // unknown, or another connection executes it
	}
	c.stopAsking(call.CallID)
	if call.RequiresApproval {
		if decision, isMade := c.answers["decision "+call.CallID]; isMade {
			c.send(decision)
		} else {
			c.asking = append(c.asking, call.CallID)
			c.prompt()
		}
		return
	}
	if _, isMade := c.answers[call.CallID]; !isMade {
		result := object{"type": "tool_result", "call_id": call.CallID}
		if value, err := c.execute(call.ToolName, call.Arguments); err != nil {
			result["error"] = err.Error()
		} else {
			result["result"] = value
		}
		c.answers[call.CallID] = result
	}
	c.send(c.answers[call.CallID])
}

// typed takes a line of the user: a decision if a call waits for one, else a message.
func (c *Client) typed(line string) {
	if len(c.asking) == 0 {
		id := fmt.Sprintf("%x-%x", time.Now().UnixNano(), rand.Int63())
		c.message = object{"type": "user_message", "content": line, "client_msg_id": id}
		if c.isLive { // else it goes after resumed
			c.send(c.message)
		}
		return
	}
	decision, callID := object{"type": "hitl_decision", "call_id": c.asking[0], "decision": "reject"}, c.asking[0]
	var arguments object
	if line == "y" {
		decision["decision"] = "approve"
	} else if json.Unmarshal([]byte(line), &arguments) == nil {
		decision["decision"], decision["modified_arguments"] = "edit", arguments
	}
	c.answers["decision "+callID] = decision
	c.answer(c.calls[callID])
	c.prompt()
}

func (c *Client) prompt() {
	if c.isLive && len(c.asking) > 0 {
		call := c.calls[c.asking[0]]
		arguments, _ := json.Marshal(call.Arguments)
		fmt.Printf("%s %s\napprove? [y, n, or other arguments] ", call.ToolName, arguments)
	} else if c.isLive && !c.isBusy {
		fmt.Print("> ")
	}
}

func (c *Client) stopAsking(callID string) {
	c.asking = slices.DeleteFunc(c.asking, func(waiting string) bool { return waiting == callID })
}

// execute does what a call says, and returns the tool's result. No link leads out of c.folder.
func (c *Client) execute(tool string, arguments object) (any, error) {
	path, _ := arguments["path"].(string)
	content, _ := arguments["content"].(string)
	switch tool {
	case "read_file":
		data, err := c.folder.ReadFile(path)
		if text, _ := json.Marshal(string(data)); len(text) > resultBytes || !utf8.Valid(data) {
			err = fmt.Errorf("%s is too large, or not UTF-8", path)
		}
		return object{"content": string(data)}, err
	case "write_file":
		if err := c.folder.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		return object{"success": true, "bytes_written": len(content)}, c.folder.WriteFile(path, []byte(content), 0o666)
	}
	return nil, fmt.Errorf("this client does not do %s", tool)
}

// send may lose the frame with the connection; what matters is sent again after resumed.
func (c *Client) send(frame object) {
	c.socket.WriteJSON(frame)
}
