// What the AWS SDK for Go must be able to do: go run . ADDRESS PORT. Prints "N passed, N failed".
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

var (
	ctx     = context.Background()
	db      *dynamodb.Client
	streams *dynamodbstreams.Client
	name    = aws.String("sdk.go")
)

type item = map[string]types.AttributeValue

func s(text string) types.AttributeValue { return &types.AttributeValueMemberS{Value: text} }
func n(number int) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.Itoa(number)}
}
func key(p string, c int) item { return item{"p": s(p), "c": n(c)} }

func check(condition bool, format string, values ...any) error {
	if condition {
		return nil
	}
	return fmt.Errorf(format, values...)
}

func create() error {
	attribute := func(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: kind}
	}
	part := func(name string, kind types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: &name, KeyType: kind}
	}
	_, err := db.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			attribute("p", "S"), attribute("c", "N"), attribute("g", "S")},
		KeySchema: []types.KeySchemaElement{part("p", "HASH"), part("c", "RANGE")},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("by_g"), Projection: &types.Projection{ProjectionType: "ALL"},
			KeySchema: []types.KeySchemaElement{part("g", "HASH")}}},
		StreamSpecification: &types.StreamSpecification{
			StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
		Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}},
	})
	if err != nil {
		return err
	}
	waiter := dynamodb.NewTableExistsWaiter(db)
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: name}, time.Minute); err != nil {
		return err
	}
	listed, err := db.ListTables(ctx, &dynamodb.ListTablesInput{})
	if err != nil {
		return err
	}
	return check(len(listed.TableNames) == 1, "tables: %v", listed.TableNames)
}

type thing struct {
	P       string            `dynamodbav:"p"`
	C       int               `dynamodbav:"c"`
	G       string            `dynamodbav:"g"`
	Binary  []byte            `dynamodbav:"binary"`
	Float   float64           `dynamodbav:"float"`
	Yes     bool              `dynamodbav:"yes"`
	Nothing *string           `dynamodbav:"nothing"`
	List    []int             `dynamodbav:"list"`
	Map     map[string]string `dynamodbav:"map"`
	Strings []string          `dynamodbav:"strings,stringset"`
	Numbers []int             `dynamodbav:"numbers,numberset"`
}

func put() error {
	wanted := thing{"types", 1, "indexed", []byte{0, 255}, -1.5e-7, true, nil, []int{3, 1, 3},
		map[string]string{"x": "grün", "y": ""}, []string{"a", "b"}, []int{7}}
	made, err := attributevalue.MarshalMap(wanted)
	if err != nil {
		return err
	}
	if _, err = db.PutItem(ctx, &dynamodb.PutItemInput{TableName: name, Item: made}); err != nil {
		return err
	}
	got, err := db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: name, Key: key("types", 1), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return err
	}
	var found thing
	if err = attributevalue.UnmarshalMap(got.Item, &found); err != nil {
		return err
	}
	if err := check(reflect.DeepEqual(found, wanted), "%v is not %v", found, wanted); err != nil {
		return err
	}
	put := &dynamodb.PutItemInput{TableName: name, Item: made,
		ConditionExpression:                 aws.String("attribute_not_exists(p)"),
		ReturnValuesOnConditionCheckFailure: "ALL_OLD"}
	_, err = db.PutItem(ctx, put)
	var failed *types.ConditionalCheckFailedException
	return check(errors.As(err, &failed) && len(failed.Item) == len(made), "not refused: %v", err)
}

func update() error {
	for turn := 1; turn <= 3; turn++ {
		got, err := db.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: name, Key: key("count", 0),
			UpdateExpression:          aws.String("SET #n = if_not_exists(#n, :zero) + :one"),
			ExpressionAttributeNames:  map[string]string{"#n": "n"},
			ExpressionAttributeValues: item{":zero": n(0), ":one": n(1)},
			ReturnValues:              types.ReturnValueUpdatedNew})
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(got.Attributes, item{"n": n(turn)}) {
			return fmt.Errorf("turn %d: %v", turn, got.Attributes)
		}
	}
	_, err := db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: name, Key: key("count", 0)})
	return err
}

func query() error {
	for start := 0; start < 100; start += 25 {
		writes := []types.WriteRequest{}
		for c := start; c < start+25; c++ {
			one := key("wide", c)
			one["g"] = s(fmt.Sprint("g", c%4))
			writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: one}})
		}
		_, err := db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{*name: writes}})
		if err != nil {
			return err
		}
	}
	pages := dynamodb.NewQueryPaginator(db, &dynamodb.QueryInput{TableName: name, Limit: aws.Int32(7),
		KeyConditionExpression: aws.String("p = :p AND c >= :c"), ConsistentRead: aws.Bool(true),
		ExpressionAttributeValues: item{":p": s("wide"), ":c": n(10)}})
	next := 10
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, found := range page.Items {
			if !reflect.DeepEqual(found["c"], n(next)) {
				return fmt.Errorf("%v in the place of %d", found["c"], next)
			}
			next++
		}
	}
	if next != 100 {
		return fmt.Errorf("the pages end before %d", next)
	}
	// A global index is behind for a moment.
	count := int32(0)
	for turn := 0; turn < 100 && count != 25; turn++ {
		found, err := db.Query(ctx, &dynamodb.QueryInput{TableName: name, IndexName: aws.String("by_g"),
			KeyConditionExpression:    aws.String("g = :g"),
			ExpressionAttributeValues: item{":g": s("g1")}})
		if err != nil {
			return err
		}
		count = found.Count
		time.Sleep(20 * time.Millisecond)
	}
	return check(count == 25, "%d items of the index", count)
}

func transact() error {
	put := func(c int) types.TransactWriteItem {
		return types.TransactWriteItem{Put: &types.Put{TableName: name, Item: key("both", c),
			ConditionExpression: aws.String("attribute_not_exists(p)")}}
	}
	for turn := 0; turn < 2; turn++ {
		// The SDK adds a token: what it sends again is done once.
		_, err := db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
			TransactItems:      []types.TransactWriteItem{put(1), put(2)},
			ClientRequestToken: aws.String("once")})
		if err != nil {
			return err
		}
	}
	_, err := db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{put(3), put(2)}})
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) || *cancelled.CancellationReasons[1].Code != "ConditionalCheckFailed" {
		return fmt.Errorf("not cancelled: %v", err)
	}
	get := func(c int) types.TransactGetItem {
		return types.TransactGetItem{Get: &types.Get{TableName: name, Key: key("both", c)}}
	}
	got, err := db.TransactGetItems(ctx, &dynamodb.TransactGetItemsInput{
		TransactItems: []types.TransactGetItem{get(1), get(2), get(3)}})
	if err != nil {
		return err
	}
	has := func(at int) bool { return len(got.Responses[at].Item) == 2 }
	return check(has(0) && has(1) && !has(2), "%v", got.Responses)
}

// Whether the stream has such a record of an item of that hash key.
func recorded(p string, fits func(record streamtypes.Record) bool) (bool, error) {
	table, err := db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: name})
	if err != nil {
		return false, err
	}
	arn := table.Table.LatestStreamArn
	stream, err := streams.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	if err != nil {
		return false, err
	}
	for _, shard := range stream.StreamDescription.Shards {
		at, err := streams.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{
			StreamArn: arn, ShardId: shard.ShardId,
			ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon})
		if err != nil {
			return false, err
		}
		for iterator := at.ShardIterator; iterator != nil; {
			got, err := streams.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: iterator})
			if err != nil {
				return false, err
			}
			for _, record := range got.Records {
				hash, is := record.Dynamodb.Keys["p"].(*streamtypes.AttributeValueMemberS)
				if is && hash.Value == p && fits(record) {
					return true, nil
				}
			}
			iterator = got.NextShardIterator
			if len(got.Records) == 0 {
				break
			}
		}
	}
	return false, nil
}

func untilRecorded(p string, fits func(record streamtypes.Record) bool) error {
	for turn := 0; turn < 300; turn++ {
		if found, err := recorded(p, fits); found || err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("no such record of %s", p)
}

func stream() error {
	changed := func(record streamtypes.Record) bool {
		return record.EventName == streamtypes.OperationTypeModify &&
			reflect.DeepEqual(record.Dynamodb.OldImage["n"], &streamtypes.AttributeValueMemberN{Value: "2"}) &&
			reflect.DeepEqual(record.Dynamodb.NewImage["n"], &streamtypes.AttributeValueMemberN{Value: "3"})
	}
	removed := func(record streamtypes.Record) bool {
		return record.EventName == streamtypes.OperationTypeRemove && record.UserIdentity == nil
	}
	if err := untilRecorded("count", changed); err != nil {
		return err
	}
	return untilRecorded("count", removed)
}

func expire() error {
	_, err := db.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{TableName: name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String("end"), Enabled: aws.Bool(true)}})
	if err != nil {
		return err
	}
	old := key("old", 0)
	old["end"] = n(int(time.Now().Unix()) - 60)
	if _, err = db.PutItem(ctx, &dynamodb.PutItemInput{TableName: name, Item: old}); err != nil {
		return err
	}
	return untilRecorded("old", func(record streamtypes.Record) bool {
		return record.EventName == streamtypes.OperationTypeRemove && record.UserIdentity != nil &&
			*record.UserIdentity.PrincipalId == "dynamodb.amazonaws.com"
	})
}

func drop() error {
	if _, err := db.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: name}); err != nil {
		return err
	}
	_, err := db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: name})
	var missing *types.ResourceNotFoundException
	return check(errors.As(err, &missing), "still there: %v", err)
}

func main() {
	endpoint := aws.String("http://" + os.Args[1] + ":8000")
	keys := credentials.NewStaticCredentialsProvider("any", "any", "")
	db = dynamodb.New(dynamodb.Options{
		BaseEndpoint: endpoint, Region: "us-east-1", Credentials: keys, RetryMaxAttempts: 1})
	streams = dynamodbstreams.New(dynamodbstreams.Options{
		BaseEndpoint: endpoint, Region: "us-east-1", Credentials: keys, RetryMaxAttempts: 1})
	passed, failed := 0, 0
	for _, test := range []struct {
		name string
		run  func() error
	}{{"create", create}, {"put", put}, {"update", update}, {"query", query}, {"transact", transact},
		{"stream", stream}, {"expire", expire}, {"drop", drop}} {
		if err := test.run(); err != nil {
			failed++
			fmt.Println("FAILED", test.name, err)
		} else {
			passed++
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
