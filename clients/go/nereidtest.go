// Package nereidtest starts throw-away Nereid nodes for the tests of Go programs.
//
// A node is a process of its own on free ports of the loopback address, with its data in a temporary
// folder. The folder goes with the node, and the node goes with the process that started it. The
// package uses no driver: a test connects with the one of its program.
package nereidtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
	logBytesMax  = 64 << 10
)

// Node is a running node.
type Node struct {
	Host           string `json:"host"`
	Port           int    `json:"port"`
	ShardAwarePort int    `json:"shard_aware_port"`
	APIPort        int    `json:"api_port"`
	PID            int    `json:"pid"`

	command *exec.Cmd
	log     *tail
}

// Start starts a node that ends with the test. It takes options of the command line, for example
// "--smp=2". A test fails where the node does not start.
func Start(t testing.TB, options ...string) *Node {
	t.Helper()
	node, err := Launch(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Stop(); err != nil {
			t.Errorf("nereid did not end as it should: %v\n%s", err, node.log)
		}
	})
	return node
}

var shared struct {
	once sync.Once
	node *Node
	err  error
}

// Shared is one node for all tests of a package's test program. It ends with that program.
func Shared(t testing.TB) *Node {
	t.Helper()
	shared.once.Do(func() { shared.node, shared.err = Launch() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.node
}

var keyspaces atomic.Int64

// Keyspace makes a keyspace, which is dropped after the test, and returns its name. Statements are
// executed by execute: with gocql, func(s string) error { return session.Query(s).Exec() }.
func Keyspace(t testing.TB, execute func(statement string) error) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", keyspaces.Add(1))
	create := "CREATE KEYSPACE " + name +
		" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
	if err := execute(create); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := execute("DROP KEYSPACE " + name); err != nil {
			t.Error(err)
		}
	})
	return name
}

// Launch starts a node outside of a test. The program is the one that the environment variable NEREID
// names, else nereid of the PATH.
func Launch(options ...string) (*Node, error) {
	binary := os.Getenv("NEREID")
	if binary == "" {
		binary = "nereid"
	}
	node := &Node{log: &tail{}}
	node.command = exec.Command(binary, append([]string{"--ephemeral"}, options...)...)
	node.command.Stderr = node.log
	stdout, err := node.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := node.command.Start(); err != nil {
		return nil, fmt.Errorf("no nereid program: install one, or set NEREID to its path: %w", err)
	}
	late := time.AfterFunc(startTimeout, func() { _ = node.command.Process.Kill() })
	defer late.Stop()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, node)
	}
	if err != nil {
		_ = node.command.Process.Kill()
		_ = node.command.Wait()
		return nil, fmt.Errorf("%v did not start:\n%s", node.command, node.log)
	}
	return node, nil
}

// Address is the node's address and port as drivers take them.
func (node *Node) Address() string {
	return fmt.Sprintf("%s:%d", node.Host, node.Port)
}

// Stop ends the node and removes its data.
func (node *Node) Stop() error {
	if err := node.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	late := time.AfterFunc(stopTimeout, func() { _ = node.command.Process.Kill() })
	defer late.Stop()
	return node.command.Wait()
}

// tail keeps the last bytes of a log.
type tail struct {
	lock  sync.Mutex
	bytes bytes.Buffer
}

func (log *tail) Write(text []byte) (int, error) {
	log.lock.Lock()
	defer log.lock.Unlock()
	log.bytes.Write(text)
	log.bytes.Next(max(0, log.bytes.Len()-logBytesMax))
	return len(text), nil
}

func (log *tail) String() string {
	log.lock.Lock()
	defer log.lock.Unlock()
	return log.bytes.String()
}
