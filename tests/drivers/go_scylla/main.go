// What ScyllaDB's fork of gocql must be able to do, and who reads logs of changes with
// scylla-cdc-go: go run . ADDRESS PORT. Prints "N passed, N failed". The fork talks to the shard
// that owns a token; the node's own counters of calls between shards tell whether it found the
// right one.
package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gocql/gocql"
)

const shards = 2

var session *gocql.Session

func check(condition bool, format string, values ...any) error {
	if condition {
		return nil
	}
	return fmt.Errorf(format, values...)
}

// counter returns the sum over shards of a metric of the node.
func counter(name string) (float64, error) {
	answer, err := http.Get("http://" + os.Args[1] + ":9180/metrics")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	sum, found := 0.0, false
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
			value, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
			if err != nil {
				return 0, err
			}
			sum, found = sum+value, true
		}
	}
	return sum, check(found, "no metric %s", name)
}

func connect() error {
	cluster := gocql.NewCluster(os.Args[1])
	cluster.Port, _ = strconv.Atoi(os.Args[2])
	cluster.Timeout = 30 * time.Second
	cluster.ConnectTimeout = 30 * time.Second
	cluster.Consistency = gocql.LocalOne
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	var err error
	if session, err = cluster.CreateSession(); err != nil {
		return err
	}
	for _, text := range []string{
		"CREATE KEYSPACE ring WITH replication = {'class': 'NetworkTopologyStrategy', " +
			"'replication_factor': 1} AND tablets = {'enabled': false}",
		"CREATE TABLE ring.t (k int PRIMARY KEY, v text)",
	} {
		if err := session.Query(text).Exec(); err != nil {
			return err
		}
	}
	return nil
}

// connectedToEachShard waits until the pool has a connection to each shard.
func connectedToEachShard() error {
	deadline := time.Now().Add(20 * time.Second)
	seen := map[int]bool{}
	for time.Now().Before(deadline) {
		iterator := session.Query("SELECT shard_id FROM system.clients").Iter()
		var shard int
		for iterator.Scan(&shard) {
			seen[shard] = true
		}
		if err := iterator.Close(); err != nil {
			return err
		}
		if len(seen) == shards {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("connections to shards %v alone", seen)
}

// toTheOwner writes and reads many partitions; no request may have to go on to another shard.
func toTheOwner() error {
	const calls, rows = "scylla_storage_proxy_replica_cross_shard_ops", 1000
	insert, query := "INSERT INTO ring.t (k, v) VALUES (?, ?)", "SELECT v FROM ring.t WHERE k = ?"
	if err := session.Query(insert, -1, "prepared").Exec(); err != nil {
		return err
	}
	if err := session.Query(query, -1).Exec(); err != nil {
		return err
	}
	before, err := counter(calls)
	if err != nil {
		return err
	}
	for k := range rows {
		if err := session.Query(insert, k, strconv.Itoa(k)).Exec(); err != nil {
			return err
		}
		var v string
		if err := session.Query(query, k).Scan(&v); err != nil {
			return err
		}
		if v != strconv.Itoa(k) {
			return fmt.Errorf("row %d holds %q", k, v)
		}
	}
	after, err := counter(calls)
	if err != nil {
		return err
	}
	// Of a driver that does not know the shard half of them go on.
	return check(after-before < rows/50, "%.0f of %d requests went to another shard", after-before, 2*rows)
}

func scan() error {
	iterator := session.Query("SELECT k, token(k) FROM ring.t").PageSize(77).Iter()
	seen, last := map[int]bool{}, int64(-1<<63)
	var k int
	var token int64
	for iterator.Scan(&k, &token) {
		if token < last || seen[k] {
			return fmt.Errorf("row %d, token %d after %d", k, token, last)
		}
		seen[k], last = true, token
	}
	if err := iterator.Close(); err != nil {
		return err
	}
	return check(len(seen) == 1001, "%d rows of 1001", len(seen))
}

func main() {
	passed, failed := 0, 0
	tests := []struct {
		name string
		run  func() error
	}{
		{"connect", connect}, {"connected to each shard", connectedToEachShard},
		{"to the owner", toTheOwner}, {"scan", scan},
		{"changes over the ring", func() error { return readChanges(false, false, false) }},
		{"changes, images over the ring", func() error { return readChanges(false, true, false) }},
		{"changes over tablets", func() error { return readChanges(true, false, false) }},
		{"changes, images over tablets", func() error { return readChanges(true, true, false) }},
		{"changes of two generations", func() error { return readChanges(true, true, true) }},
	}
	for _, test := range tests {
		if err := test.run(); err != nil {
			failed++
			fmt.Println("FAILED", test.name, err)
			if test.name == "connect" {
				break
			}
		} else {
			passed++
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
