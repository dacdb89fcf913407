package nereidtest

import (
	"errors"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAStartedNodeTakesConnectionsAndLeavesNothing(t *testing.T) {
	node, err := Launch("--smp=2")
	if err != nil {
		t.Fatal(err)
	}
	connection, err := net.DialTimeout("tcp", node.Address(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	connection.Close()
	if err := node.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(node.PID, 0); err != syscall.ESRCH {
		t.Fatalf("process %d is still there: %v", node.PID, err)
	}
}

func TestANodeThatDoesNotStartSaysWhy(t *testing.T) {
	_, err := Launch("--no-such-option=1")
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Fatalf("%v", err)
	}
}

func TestAMissingProgramIsNamed(t *testing.T) {
	t.Setenv("NEREID", "/no/such/program")
	_, err := Launch()
	if err == nil || !strings.Contains(err.Error(), "NEREID") || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v", err)
	}
}

func TestALogKeepsItsEnd(t *testing.T) {
	log := &tail{}
	for range 100 {
		_, _ = log.Write([]byte(strings.Repeat("x", 1023) + "\n"))
	}
	_, _ = log.Write([]byte("the end"))
	if text := log.String(); len(text) != logBytesMax || !strings.HasSuffix(text, "the end") {
		t.Fatalf("%d bytes", len(text))
	}
}
